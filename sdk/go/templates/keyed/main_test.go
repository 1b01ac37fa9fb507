package main

import (
	"slices"
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

func TestEachKeyHasItsOwnCount(t *testing.T) {
	harness, err := weir.OpenHarness(operator{}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Send(0, weir.Text("ann", "a", 1), weir.Text("bob", "b", 2), weir.Text("ann", "c", 3)); err != nil {
		t.Fatal(err)
	}
	var counts []string
	for _, record := range harness.Take(0) {
		counts = append(counts, string(record.Key)+" "+string(record.Value))
	}
	if !slices.Equal(counts, []string{"ann 1", "bob 1", "ann 2"}) {
		t.Errorf("%q", counts)
	}
}

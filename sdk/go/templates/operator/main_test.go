package main

import (
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

func TestValuesBecomeCapitals(t *testing.T) {
	harness, err := weir.OpenHarness(operator{}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Send(0, weir.Text("ann", "hello", 1), weir.Text("bob", "Weir", 2)); err != nil {
		t.Fatal(err)
	}
	if got := harness.Take(0); string(got[0].Value) != "HELLO" || string(got[1].Value) != "WEIR" {
		t.Errorf("%q", got)
	}
}

func TestAValueThatIsNoTextIsABadRecord(t *testing.T) {
	harness, _ := weir.OpenHarness(operator{}, "{}")
	if harness.Send(0, weir.Text("ann", "\xff", 1)) == nil {
		t.Error("it was processed")
	}
}

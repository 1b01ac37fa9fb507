package main

import (
	"bytes"
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

func TestItKeepsWhatItGets(t *testing.T) {
	probe := &probe{kept: map[string][]byte{}}
	harness, err := weir.OpenHarness(probe, "{}")
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("x"), 1000)
	if err := harness.Send(0, weir.Emitted{Value: value}, weir.Emitted{Value: value}); err != nil {
		t.Fatal(err)
	}
	if got := harness.Take(0); string(got[1].Value) != "kept 128" || len(harness.State(1, "")) != 2000 {
		t.Errorf("%q", got)
	}
}

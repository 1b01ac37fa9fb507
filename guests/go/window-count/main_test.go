package main

import (
	"fmt"
	"math"
	"slices"
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

const config = `{"size_ms":10}`

func open(t *testing.T) *weir.Harness {
	t.Helper()
	harness, err := weir.OpenHarness(&windowCount{}, config)
	if err != nil {
		t.Fatal(err)
	}
	return harness
}

func texts(harness *weir.Harness) []string {
	var texts []string
	for _, record := range harness.Take(0) {
		texts = append(texts, fmt.Sprintf("%d %s", record.Time, record.Value))
	}
	return texts
}

func expect(t *testing.T, harness *weir.Harness, err error, want ...string) {
	t.Helper()
	if got := texts(harness); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: %q, not %q", err, got, want)
	}
}

func TestEachWindowGivesItsCountOnceTheWatermarkHasPassedIt(t *testing.T) {
	harness := open(t)
	err := harness.Send(0, weir.Text("a", "", 3), weir.Text("b", "", 7), weir.Text("a", "", 12), weir.Text("a", "", 9), weir.Text("a", "", -1))
	if expect(t, harness, err); harness.Timers() != 4 {
		t.Error(harness.Timers())
	}
	expect(t, harness, harness.AdvanceWatermark(8), `-1 {"key":"a","start":-10,"count":1}`)
	expect(t, harness, harness.AdvanceWatermark(9), `9 {"key":"a","start":0,"count":2}`, `9 {"key":"b","start":0,"count":1}`)
	if err := harness.Reopen(&windowCount{}, config); err != nil {
		t.Fatal(err)
	}
	expect(t, harness, harness.Send(0, weir.Text("a", "too late", 5), weir.Text("a", "", 19)))
	if late := harness.Take(1); string(late[0].Value) != "too late" {
		t.Error(late)
	}
	expect(t, harness, harness.End(), `19 {"key":"a","start":10,"count":2}`)
	if harness.Timers() != 0 || harness.State(0, "a") != nil {
		t.Error("something is left")
	}
}

func TestAWindowBeyondAllTimesIsABadRecord(t *testing.T) {
	harness := open(t)
	if harness.Send(0, weir.Text("a", "", math.MaxInt64)) == nil || harness.Timers() != 0 {
		t.Error("its window has no end")
	}
	for _, config := range []string{`{"size_ms":0}`, `{}`, `{"size_ms":1,"more":2}`} {
		if _, err := weir.OpenHarness(&windowCount{}, config); err == nil {
			t.Error(config)
		}
	}
}

func TestAKeyIsWrittenAsJSONWantsIt(t *testing.T) {
	harness := open(t)
	expect(t, harness, harness.Send(0, weir.Text("é\"\\\n\x01<\x7f", "", 1)))
	expect(t, harness, harness.End(), `9 {"key":"é\"\\\n\u0001<`+"\x7f"+`","start":0,"count":1}`)
}

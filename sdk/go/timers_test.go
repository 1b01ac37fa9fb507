package weir

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
)

// session gives what a key had once it was quiet for 10 ms.
type session struct{}

func (*session) Info() Info {
	return Info{Name: "session", Version: "1", States: []State{{Name: "last", Version: 1}}}
}

func (*session) Process(record *Record, out *Output) error {
	timers, last := record.Timers(), record.State(0)
	switch string(record.Value) {
	case "bad":
		timers.SetEventTime(record.Time, nil)
		return BadRecord("told to")
	case "wall":
		timers.SetProcessingTime(timers.ProcessingTime()+5, []byte("wall"))
		return nil
	}
	if stored := last.Get(); stored != nil {
		quiet, _ := strconv.ParseInt(string(stored), 10, 64)
		timers.Delete(EventTime, quiet, []byte("quiet"))
	}
	last.Set(strconv.AppendInt(nil, record.Time+10, 10))
	timers.SetEventTime(record.Time+10, []byte("quiet"))
	return nil
}

func (*session) OnTimer(timer *Timer, out *Output) error {
	text := fmt.Sprintf("%s %s %d %s", timer.Kind, timer.Payload, timer.Time, timer.State(0).Get())
	out.Emit(timer.Key, []byte(text), timer.Time)
	if timer.Kind == EventTime {
		timer.State(0).Delete()
		if now := timer.Timers().Watermark(); now < math.MaxInt64 {
			timer.Timers().SetEventTime(now, []byte("again"))
		}
	}
	if string(timer.Payload) == "again" {
		timer.Timers().Delete(EventTime, timer.Timers().Watermark(), []byte("again"))
	}
	return nil
}

func values(harness *Harness) []string {
	var texts []string
	for _, record := range harness.Take(0) {
		texts = append(texts, string(record.Key)+": "+string(record.Value))
	}
	return texts
}

func TestTimersFireByTimeAndKey(t *testing.T) {
	harness, err := OpenHarness(&session{}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(harness.Send(0, Text("b", "", 1), Text("a", "", 1), Text("a", "", 3), Text("c", "", 5), Text("d", "wall", 0)))
	if err := harness.Send(0, Text("z", "", 1), Text("z", "bad", 1)); err == nil || harness.Timers() != 4 {
		t.Error(err, harness.Timers())
	}
	must(harness.AdvanceWatermark(10))
	if got := values(harness); got != nil {
		t.Error(got)
	}
	must(harness.Reopen(&session{}, "{}"))
	must(harness.AdvanceWatermark(13))
	want := []string{"b: event-time quiet 11 11", "a: event-time quiet 13 13", "a: event-time again 13 ", "b: event-time again 13 "}
	if got := values(harness); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	must(harness.AdvanceProcessingTime(5))
	must(harness.End())
	want = []string{"d: processing-time wall 5 ", "c: event-time quiet 15 15"}
	if got := values(harness); !slices.Equal(got, want) || harness.Timers() != 0 {
		t.Errorf("%q", got)
	}
}

// total gives sums at the end: those of keys that are held before the call, and one that is read on demand.
type total struct{ asked int }

func (*total) Info() Info {
	return Info{Name: "total", Version: "1", Inputs: 2, States: []State{
		{Name: "rare", Version: 1, OnDemand: true}, {Name: "sum", Version: 1}, {Name: "never", Version: 1, OnDemand: true},
	}}
}

func (*total) Process(record *Record, out *Output) error {
	number, err := strconv.Atoi(string(record.Value))
	if err != nil {
		rare := record.State(0)
		out.Emit(record.Key, rare.Get(), 0)
		switch string(record.Value) {
		case "delete":
			rare.Delete()
		case "bad":
			rare.Set([]byte("bad"))
			return BadRecord("told to")
		default:
			rare.Set(record.Value)
		}
		return nil
	}
	sum, _ := strconv.Atoi(string(record.State(1).Get()))
	record.State(1).Set(strconv.AppendInt(nil, int64(sum+number), 10))
	return nil
}

func (*total) OnEnd(port uint32, out *Output) error {
	out.Emit(nil, []byte(fmt.Sprint("end ", port)), 0)
	return nil
}

func (*total) OnEndKey(key *Keyed, out *Output) error {
	out.Emit(key.Key, []byte(fmt.Sprintf("%s %s", key.State(1).Get(), key.State(0).Get())), 0)
	key.State(1).Delete()
	return nil
}

func TestTheEndOfInputAndStateOnDemand(t *testing.T) {
	harness, err := OpenHarness(&total{}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	records := []Emitted{Text("e", "5", 0)}
	for i := range 4 {
		records = append(records, Text(string(rune('a'+i)), "1", 0), Text("e", fmt.Sprint(i), 0))
	}
	records = append(records, Text("a", "one", 0), Text("a", "two", 0), Text("b", "x", 0), Text("b", "delete", 0), Text("only", "rare", 0))
	if err := harness.Send(1, records...); err != nil {
		t.Fatal(err)
	}
	want := []string{"a: ", "a: one", "b: ", "b: x", "only: "}
	if got := values(harness); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := harness.Send(0, Text("a", "x", 0), Text("a", "bad", 0)); err == nil {
		t.Error("it is bad")
	}
	if string(harness.State(0, "a")) != "two" || harness.State(0, "b") != nil || string(harness.State(0, "only")) != "rare" {
		t.Errorf("%q", harness.state)
	}
	if err := harness.End(); err != nil {
		t.Fatal(err)
	}
	want = []string{": end 0", ": end 1", "a: 1 two", "b: 1 ", "c: 1 ", "d: 1 ", "e: 11 "}
	if got := values(harness); !slices.Equal(got, want) || harness.State(1, "a") != nil {
		t.Errorf("%q", got)
	}
}

package weir

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// teller does what a record's value says.
type teller struct{ closed bool }

func (*teller) Info() Info {
	return Info{
		Name: "teller", Version: "1",
		States:      []State{{Name: "unused", Version: 1}, {Name: "last", Version: 2}},
		SideOutputs: []string{"never", "values"},
	}
}

func (t *teller) Open(task Task, config []byte) error {
	if task.Parallelism != 1 || string(config) == `{"refuse":true}` {
		return errors.New("told to")
	}
	return nil
}

func (t *teller) Close() { t.closed = true }

func (t *teller) Process(record *Record, out *Output) error {
	state := record.State(1)
	switch string(record.Value) {
	case "bad":
		return fmt.Errorf("wrapped: %w", BadRecord("no good"))
	case "retry":
		return Retry("later")
	case "fatal":
		return errors.New("never")
	case "delete":
		state.Delete()
	case "fixed":
		bytes, err := state.Fixed(3)
		if err != nil {
			return err
		}
		bytes[0]++
	case "empty":
		state.Delete()
		state.Set(nil)
	default:
		state.Set(record.Value)
	}
	out.Forward(record)
	out.Side(1).Emit(record.Key, state.Get(), record.Time)
	return nil
}

func open(t *testing.T) *Harness {
	t.Helper()
	harness, err := OpenHarness(&teller{}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	return harness
}

func TestStateAndSideOutputs(t *testing.T) {
	harness := open(t)
	if err := harness.Send(0, Text("a", "one", 1), Text("b", "empty", 2), Text("a", "two", 3)); err != nil {
		t.Fatal(err)
	}
	if want := []Emitted{Text("a", "one", 1), Text("b", "", 2), Text("a", "two", 3)}; !reflect.DeepEqual(harness.Take(2), want) {
		t.Error("the side output differs")
	}
	if string(harness.State(1, "a")) != "two" || harness.State(1, "b") == nil || harness.State(0, "a") != nil {
		t.Errorf("%q", harness.state)
	}
	if err := harness.Send(0, Text("a", "delete", 1)); err != nil || harness.State(1, "a") != nil {
		t.Error(err, harness.State(1, "a"))
	}
	if len(harness.Take(1)) > 0 || len(harness.Take(0)) != 4 {
		t.Error("the main output differs")
	}
	if harness.Close(); !harness.driver.operator.(*teller).closed {
		t.Error("it was not closed")
	}
}

func TestAValueOfFixedSizeIsChangedInPlace(t *testing.T) {
	harness := open(t)
	for range 2 {
		if err := harness.Send(0, Text("a", "fixed", 1), Text("a", "fixed", 2)); err != nil {
			t.Fatal(err)
		}
	}
	if got := harness.State(1, "a"); string(got) != "\x04\x00\x00" {
		t.Errorf("%q", got)
	}
	if err := harness.Send(0, Text("b", "long", 1), Text("b", "fixed", 1)); err == nil || harness.State(1, "b") != nil {
		t.Error("it has another size")
	}
}

func TestAFailureChangesNothing(t *testing.T) {
	if _, err := OpenHarness(&teller{}, `{"refuse":true}`); err == nil {
		t.Error("it opened")
	}
	for _, value := range []string{"bad", "retry", "fatal"} {
		harness := open(t)
		err := harness.Send(0, Text("a", "one", 1), Text("a", value, 1), Text("a", "two", 1))
		var refused BadRecords
		if bad := errors.As(err, &refused); bad != (value == "bad") || isRetry(err) != (value == "retry") || err == nil {
			t.Error(value, err)
		} else if bad && (len(refused) != 1 || refused[1] != "wrapped: no good") {
			t.Error(refused)
		}
		if harness.State(1, "a") != nil || len(harness.Take(0))+len(harness.Take(2)) > 0 {
			t.Error(value, "changed something")
		}
		if err := harness.Send(0, Text("a", "one", 1)); err != nil || len(harness.Take(0)) != 1 {
			t.Error(value, "was the end", err)
		}
	}
}

func TestWhatARecordHasBesideKeyAndValueIsForwarded(t *testing.T) {
	harness := open(t)
	records := []Emitted{
		Text("k", "v", 5),
		{Key: []byte{}, Value: nil, Time: 6},
		{Key: nil, Value: []byte{}, Time: 7, Headers: []Header{{"h", nil}, {"h", []byte("x")}, {"", []byte{}}}},
		Text("k", "w", 8),
	}
	if err := harness.Send(3, records...); err != nil {
		t.Fatal(err)
	}
	if got := harness.Take(0); !reflect.DeepEqual(got, records) {
		t.Errorf("%v, not %v", got, records)
	}
	if plain := pack(records[:1]); plain.Aux != nil {
		t.Errorf("a plain batch has aux %v", plain.Aux)
	}
}

func TestALargeOutputGoesOverInChunks(t *testing.T) {
	harness := open(t)
	value := bytes.Repeat([]byte("x"), 1000)
	records := make([]Emitted, 2000)
	for i := range records {
		records[i] = Emitted{Key: []byte("k"), Value: value, Time: int64(i)}
	}
	chunks := 0
	emit := harness.driver.out.emit
	harness.driver.out.emit = func(port uint32, b batch) {
		if chunks++; len(b.Data) > chunkBytes+1001 {
			t.Errorf("a chunk of %d bytes", len(b.Data))
		}
		emit(port, b)
	}
	if err := harness.Send(0, records...); err != nil {
		t.Fatal(err)
	}
	if got := harness.Take(0); !reflect.DeepEqual(got, records) || chunks != 2000*1001/chunkBytes {
		t.Errorf("%d records in %d chunks", len(got), chunks)
	}
}

func TestMemoryIsAlignedAndBounded(t *testing.T) {
	var memory arena
	first := memory.allocate(3)
	second := memory.allocate(5)
	if len(first) != 3 || cap(first) != 8 || len(second) != 5 {
		t.Error(len(first), cap(first), len(second))
	}
	memory.allocate(arenaKept + 1)
	if memory.reset(); memory.chunk != nil || memory.full != nil {
		t.Error("more is kept than it may be")
	}
}

func TestOwnHeadersAndNulls(t *testing.T) {
	var port Port
	headers := []Header{{"h", nil}, {"h", []byte("x")}, {"", []byte{}}}
	port.Emit(nil, nil, 1)
	port.EmitHeaders([]byte("k"), []byte{}, 2, headers...)
	port.EmitHeaders([]byte{}, nil, 3)
	want := []Emitted{{Time: 1}, {[]byte("k"), []byte{}, 2, headers}, {[]byte{}, nil, 3, nil}}
	if got := unpack(port.batch()); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

func TestWhatAnOperatorHasMustBeImported(t *testing.T) {
	if why := whatIsNotImported(&teller{}); why != "" {
		t.Error(why)
	}
	for _, operator := range []Operator{&session{}, &total{}} {
		if why := whatIsNotImported(operator); !strings.Contains(why, "must import _ \"github.com/weir-dataflow/weir/sdk/go/") {
			t.Errorf("%T: %q", operator, why)
		}
	}
}

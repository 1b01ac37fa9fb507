package weir

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Harness runs an operator in a test as the host does: whole batches with prefetched state, and nothing of a call that fails is
// applied. State lies in memory.
type Harness struct {
	driver  *driver
	timers  memoryTimers
	state   []map[string][]byte
	pending [][]Emitted
	outputs [][]Emitted
}

// Emitted is a record that came out, or one that goes in.
type Emitted struct {
	// Key and Value: nil is null.
	Key, Value []byte
	Time       int64
	Headers    []Header
}

// Text makes a record of texts.
func Text(key, value string, time int64) Emitted {
	return Emitted{Key: []byte(key), Value: []byte(value), Time: time}
}

// BadRecords is the error of a batch with records that can't be processed: why, by index. A [SinkWriter] gives it, and a [Harness].
type BadRecords map[int]string

func (b BadRecords) Error() string {
	return fmt.Sprintf("%d bad records: %v", len(b), map[int]string(b))
}

// OpenHarness opens an operator without state.
func OpenHarness(operator Operator, config string) (*Harness, error) {
	h := &Harness{}
	states := operator.Info().States
	for range states {
		h.state = append(h.state, map[string][]byte{})
	}
	h.outputs = make([][]Emitted, 1+len(operator.Info().SideOutputs))
	h.timers.set, h.timers.clocks = map[memoryTimer]bool{}, map[TimerKind]int64{EventTime: math.MinInt64}
	return h, h.start(operator, config)
}

// Reopen closes the operator and opens another one on the same state and timers: what a restart does.
func (h *Harness) Reopen(operator Operator, config string) error {
	h.driver.close()
	return h.start(operator, config)
}

func (h *Harness) start(operator Operator, config string) error {
	h.driver = newDriver(operator, func(port uint32, records batch) {
		h.pending[port] = append(h.pending[port], unpack(records)...)
	})
	h.driver.onDemand = &memoryState{h}
	if _, ok := operator.(TimerOperator); ok {
		h.driver.timers = &h.timers
	}
	return h.driver.open(Task{Job: "test", Operator: "operator", Parallelism: 1, Attempt: 1}, []byte(config))
}

// Send sends a batch to an input, and fires what is due then.
func (h *Harness) Send(port uint32, records ...Emitted) error {
	keys, keyOf := distinct(records)
	err := h.call(keys, func(states []cells) result { return h.driver.process(port, pack(records), keyOf, states) })
	if err != nil {
		return err
	}
	return h.fire()
}

// AdvanceWatermark says that event time has come so far, and fires what is due.
func (h *Harness) AdvanceWatermark(to int64) error {
	h.timers.clocks[EventTime] = to
	return h.fire()
}

// AdvanceProcessingTime says what the clock on the wall shows, and fires what is due.
func (h *Harness) AdvanceProcessingTime(to int64) error {
	h.timers.clocks[ProcessingTime] = to
	return h.fire()
}

// Timers is the number of timers that are set.
func (h *Harness) Timers() int { return len(h.timers.set) }

// End fires every timer of event time, ends all inputs in order, and then every key that holds state, some keys a call.
func (h *Harness) End() error {
	if err := h.AdvanceWatermark(math.MaxInt64); err != nil {
		return err
	}
	for port := range max(h.driver.info.Inputs, 1) {
		if err := h.call(nil, func([]cells) result { return h.driver.end(port) }); err != nil {
			return err
		}
	}
	held := map[string]bool{}
	for _, state := range h.driver.prefetched {
		for key := range h.state[state] {
			held[key] = true
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(held)), 3) {
		var keys column
		for _, key := range some {
			keys = appendString(keys, []byte(key))
		}
		if err := h.call(some, func(states []cells) result { return h.driver.endKeys(keys, states) }); err != nil {
			return err
		}
	}
	return nil
}

// fire fires what is due, some timers a call.
func (h *Harness) fire() error {
	for _, kind := range []TimerKind{EventTime, ProcessingTime} {
		for due := h.timers.takeDue(kind, 3); len(due) > 0; due = h.timers.takeDue(kind, 3) {
			keys, keyOf := distinct(due)
			err := h.call(keys, func(states []cells) result { return h.driver.fire(string(kind), pack(due), keyOf, states) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// distinct gives the distinct keys of records, and which one each has.
func distinct(records []Emitted) (keys []string, keyOf []byte) {
	places := map[string]int{}
	for _, record := range records {
		place, known := places[string(record.Key)]
		if !known {
			place = len(keys)
			places[string(record.Key)] = place
			keys = append(keys, string(record.Key))
		}
		keyOf = appendU32(keyOf, place)
	}
	return keys, keyOf
}

// call makes one call with the states of these keys, and applies what it gives, or nothing of it.
func (h *Harness) call(keys []string, call func(states []cells) result) error {
	var states []cells
	for _, state := range h.driver.prefetched {
		states = append(states, h.read(state, keys))
	}
	h.pending = make([][]Emitted, len(h.outputs))
	h.timers.keys, h.timers.changes = keys, nil
	before := make([]map[string][]byte, len(h.state))
	for i := range h.state {
		before[i] = maps.Clone(h.state[i])
	}
	done := call(states)
	if done.err != nil || done.bad != nil {
		h.state = before
		if done.err != nil {
			return done.err
		}
		refused := BadRecords{}
		for _, bad := range done.bad {
			refused[int(bad.index)] = bad.why
		}
		return refused
	}
	h.outputs[0] = append(append(h.outputs[0], h.pending[0]...), unpack(h.driver.out.batch())...)
	for i := range h.driver.out.sides {
		h.outputs[i+1] = append(append(h.outputs[i+1], h.pending[i+1]...), unpack(h.driver.out.sides[i].batch())...)
	}
	for i, update := range done.updates {
		state := h.state[h.driver.prefetched[i]]
		for k, key := range keys {
			switch update.Ops[k] {
			case 1:
				state[key] = bytes.Clone(update.Data[u32At(update.Index, k):u32At(update.Index, k+1)])
			case 2:
				delete(state, key)
			}
		}
	}
	h.timers.apply()
	h.driver.memory.reset()
	return nil
}

// read gives the values of one state.
func (h *Harness) read(state int, keys []string) cells {
	values := cells{Index: appendU32(nil, 0)}
	for _, key := range keys {
		value, present := h.state[state][key]
		op := byte(0)
		if present {
			op = 1
		}
		values.Ops = append(values.Ops, op)
		values.Data = append(values.Data, value...)
		values.Index = appendU32(values.Index, len(values.Data))
	}
	return values
}

// Take gives what came out of the main output (0) or side output k - 1 (k) since it was last asked.
func (h *Harness) Take(port int) []Emitted {
	taken := h.outputs[port]
	h.outputs[port] = nil
	return taken
}

// State gives the stored value of a key; nil if there is none.
func (h *Harness) State(i int, key string) []byte { return h.state[i][key] }

// Close closes the operator.
func (h *Harness) Close() { h.driver.close() }

// pack makes one batch, of any size.
func pack(records []Emitted) batch {
	var port Port
	port.whole = true
	for _, record := range records {
		port.push(record.Key, record.Value, record.Time, encodeHeaders(record.Headers))
	}
	return port.batch()
}

// unpack reads a batch, as the host would see it.
func unpack(b batch) []Emitted {
	in := newInput(b)
	records := make([]Emitted, b.Count)
	for i := range records {
		var record Record
		in.read(i, &record)
		records[i] = Emitted{bytes.Clone(record.Key), bytes.Clone(record.Value), record.Time, record.Headers()}
	}
	return records
}

package weir

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Harness runs an operator in a test as the host does: whole batches with prefetched state, and nothing of a call that fails is
// applied. State lies in memory.
type Harness struct {
	driver  *driver
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

// BadRecords is the error of a batch with records that can't be processed: why, by index.
type BadRecords map[int]string

func (b BadRecords) Error() string {
	return fmt.Sprintf("%d bad records: %v", len(b), map[int]string(b))
}

// OpenHarness opens an operator without state.
func OpenHarness(operator Operator, config string) (*Harness, error) {
	h := &Harness{}
	h.driver = newDriver(operator, func(port uint32, records batch) {
		h.pending[port] = append(h.pending[port], records.records()...)
	})
	for range h.driver.info.States {
		h.state = append(h.state, map[string][]byte{})
	}
	h.outputs = make([][]Emitted, 1+len(h.driver.info.SideOutputs))
	task := Task{Job: "test", Operator: "operator", Parallelism: 1, Attempt: 1}
	return h, h.driver.open(task, []byte(config))
}

// Send sends a batch to an input.
func (h *Harness) Send(port uint32, records ...Emitted) error {
	keys, keyOf, places := []string{}, []byte(nil), map[string]int{}
	for _, record := range records {
		place, known := places[string(record.Key)]
		if !known {
			place = len(keys)
			places[string(record.Key)] = place
			keys = append(keys, string(record.Key))
		}
		keyOf = appendU32(keyOf, place)
	}
	states := make([]cells, len(h.state))
	for i, values := range h.state {
		states[i].index = appendU32(nil, 0)
		for _, key := range keys {
			value, present := values[key]
			op := byte(0)
			if present {
				op = 1
			}
			states[i].ops = append(states[i].ops, op)
			states[i].data = append(states[i].data, value...)
			states[i].index = appendU32(states[i].index, len(states[i].data))
		}
	}
	h.pending = make([][]Emitted, len(h.outputs))
	done := h.driver.process(port, pack(records), keyOf, states)
	switch {
	case done.err != nil:
		return done.err
	case done.bad != nil:
		refused := BadRecords{}
		for _, bad := range done.bad {
			refused[int(bad.index)] = bad.why
		}
		return refused
	}
	h.outputs[0] = append(append(h.outputs[0], h.pending[0]...), h.driver.out.batch().records()...)
	for i := range h.driver.out.sides {
		h.outputs[i+1] = append(append(h.outputs[i+1], h.pending[i+1]...), h.driver.out.sides[i].batch().records()...)
	}
	for i, update := range done.updates {
		for k, key := range keys {
			switch update.ops[k] {
			case 1:
				h.state[i][key] = bytes.Clone(update.data[u32At(update.index, k):u32At(update.index, k+1)])
			case 2:
				delete(h.state[i], key)
			}
		}
	}
	h.driver.memory.reset()
	return nil
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
		var headers []byte
		for _, header := range record.Headers {
			headers = append(appendU32(headers, len(header.Name)), header.Name...)
			if header.Value == nil {
				headers = binary.LittleEndian.AppendUint32(headers, nullHeader)
			} else {
				headers = append(appendU32(headers, len(header.Value)), header.Value...)
			}
		}
		port.push(record.Key, record.Value, record.Time, headers)
	}
	return port.batch()
}

// records reads a batch, as the host would see it.
func (b batch) records() []Emitted {
	in := newInput(b)
	records := make([]Emitted, b.count)
	for i := range records {
		var record Record
		in.read(i, &record)
		records[i] = Emitted{bytes.Clone(record.Key), bytes.Clone(record.Value), record.Time, record.Headers()}
	}
	return records
}

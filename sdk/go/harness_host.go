package weir

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// memoryState is state on demand in a test.
type memoryState struct{ harness *Harness }

func (m *memoryState) GetMany(state uint32, keys column) cells {
	return m.harness.read(int(state), m.strings(keys))
}

func (m *memoryState) PutMany(state uint32, keys, values column) {
	for i, key := range m.strings(keys) {
		m.harness.state[state][key] = bytes.Clone(values.Data[u32At(values.Index, i):u32At(values.Index, i+1)])
	}
}

func (m *memoryState) DeleteMany(state uint32, keys column) {
	for _, key := range m.strings(keys) {
		delete(m.harness.state[state], key)
	}
}

// strings gives keys of the running call; the host would trap at another.
func (m *memoryState) strings(c column) []string {
	list := make([]string, len(c.Index)/4-1)
	for i := range list {
		list[i] = string(c.Data[u32At(c.Index, i):u32At(c.Index, i+1)])
		if !slices.Contains(m.harness.timers.keys, list[i]) {
			panic(fmt.Sprintf("state of the key %q, which is none of the running call's", list[i]))
		}
	}
	return list
}

// memoryTimers are the timers of an operator in a test.
type memoryTimers struct {
	set    map[memoryTimer]bool
	clocks map[TimerKind]int64
	// Of the running call: its keys, and what is to change.
	keys    []string
	changes []memoryChange
}

type memoryTimer struct {
	kind         TimerKind
	time         int64
	key, payload string
}

type memoryChange struct {
	sets  bool
	timer memoryTimer
}

func (m *memoryTimers) RegisterMany(kind string, timers batch) { m.change(true, kind, timers) }

func (m *memoryTimers) DeleteMany(kind string, timers batch) { m.change(false, kind, timers) }

func (m *memoryTimers) Current(kind string) int64 { return m.clocks[TimerKind(kind)] }

func (m *memoryTimers) change(sets bool, kind string, timers batch) {
	for _, timer := range unpack(timers) {
		if !slices.Contains(m.keys, string(timer.Key)) {
			panic(fmt.Sprintf("a timer of the key %q, which is none of the running call's", timer.Key))
		}
		m.changes = append(m.changes, memoryChange{sets, memoryTimer{TimerKind(kind), timer.Time, string(timer.Key), string(timer.Value)}})
	}
}

// apply does what the call wanted.
func (m *memoryTimers) apply() {
	for _, change := range m.changes {
		if change.sets {
			m.set[change.timer] = true
		} else {
			delete(m.set, change.timer)
		}
	}
	m.changes = nil
}

// takeDue takes at most so many of a kind that are due, in the order in which they fire.
func (m *memoryTimers) takeDue(kind TimerKind, limit int) []Emitted {
	var due []memoryTimer
	for timer := range m.set {
		if timer.kind == kind && timer.time <= m.clocks[kind] {
			due = append(due, timer)
		}
	}
	slices.SortFunc(due, func(a, b memoryTimer) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.key, b.key), cmp.Compare(a.payload, b.payload))
	})
	records := []Emitted{}
	for _, timer := range due[:min(limit, len(due))] {
		delete(m.set, timer)
		records = append(records, Text(timer.key, timer.payload, timer.time))
	}
	return records
}

package weir

import "github.com/weir-dataflow/weir/sdk/go/internal/abi"

// driver runs an operator over the contract's batches.
type driver struct {
	operator Operator
	info     Info
	out      Output
	memory   arena
	// Indices of the states that the host reads before a call.
	prefetched []int
	timers     abi.TimerService
	onDemand   abi.KeyedState

	// Of the running call; their memory is reused.
	values  []Value
	fetched []fetched
	changes []timerChange
	clocks  [2]struct {
		known bool
		now   int64
	}
}

// fetched is a value that was read on demand.
type fetched struct {
	state int
	value *Value
	key   []byte
}

func newDriver(operator Operator, emit func(port uint32, records batch)) *driver {
	d := &driver{operator: operator, info: operator.Info()}
	d.out.emit = emit
	d.out.sides = make([]Port, len(d.info.SideOutputs))
	for i := range d.out.sides {
		d.out.sides[i].number, d.out.sides[i].emit = uint32(i+1), emit
	}
	for i, state := range d.info.States {
		if !state.OnDemand {
			d.prefetched = append(d.prefetched, i)
		}
	}
	return d
}

func (d *driver) open(task Task, config []byte) error {
	if opener, ok := d.operator.(Opener); ok {
		return opener.Open(task, config)
	}
	return nil
}

func (d *driver) close() {
	if closer, ok := d.operator.(Closer); ok {
		closer.Close()
	}
}

// bad is a record that can't be processed.
type bad struct {
	index uint32
	why   string
}

// result is what a call gives: bad records, or an error, or the outputs (which lie in the driver) and the updates of state.
type result struct {
	bad     []bad
	err     error
	updates []cells
}

// process runs one call. What it gives is valid until the next one.
func (d *driver) process(port uint32, records batch, keyOf []byte, states []cells) result {
	d.begin(states, keyOf, 0)
	d.out.reserve(len(records.Data), int(records.Count))
	in := newInput(records)
	record := Record{Port: port}
	record.driver = d
	n := len(d.info.States)
	var refused []bad
	for i := range int(records.Count) {
		in.read(i, &record)
		if n > 0 {
			first := int(u32At(keyOf, i)) * n
			record.values = d.values[first : first+n : first+n]
		}
		err := d.operator.Process(&record, &d.out)
		if err == nil {
			continue
		}
		if !isBadRecord(err) {
			return result{err: err}
		}
		// The rest is looked at, too, so that the host hears of all bad records at once; what it gives would be thrown away.
		refused = append(refused, bad{uint32(i), err.Error()})
		d.out.discard = true
		for i := range d.out.sides {
			d.out.sides[i].discard = true
		}
	}
	if refused != nil {
		return result{bad: refused}
	}
	return d.finish(states)
}

// fire runs one call with timers that are due.
func (d *driver) fire(kind string, due batch, keyOf []byte, states []cells) result {
	operator := d.operator.(TimerOperator)
	d.begin(states, keyOf, 0)
	in := newInput(due)
	var record Record
	n := len(d.info.States)
	for i := range int(due.Count) {
		in.read(i, &record)
		timer := Timer{Kind: TimerKind(kind), Payload: record.Value, Time: record.Time}
		timer.Key, timer.driver = record.Key, d
		if n > 0 {
			first := int(u32At(keyOf, i)) * n
			timer.values = d.values[first : first+n : first+n]
		}
		if err := operator.OnTimer(&timer, &d.out); err != nil {
			return result{err: err}
		}
	}
	return d.finish(states)
}

// end runs one call when an input has ended.
func (d *driver) end(port uint32) result {
	d.begin(nil, nil, 0)
	if operator, ok := d.operator.(EndOperator); ok {
		if err := operator.OnEnd(port, &d.out); err != nil {
			return result{err: err}
		}
	}
	return d.finish(nil)
}

// endKeys runs one call with keys that hold state, after the last input has ended.
func (d *driver) endKeys(keys column, states []cells) result {
	count := len(keys.Index)/4 - 1
	d.begin(states, nil, count)
	if operator, ok := d.operator.(KeyEndOperator); ok {
		n := len(d.info.States)
		for i := range count {
			from, to := u32At(keys.Index, i), u32At(keys.Index, i+1)
			key := Keyed{keys.Data[from:to:to], d.values[i*n : (i+1)*n : (i+1)*n], d}
			if err := operator.OnEndKey(&key, &d.out); err != nil {
				return result{err: err}
			}
		}
	}
	return d.finish(states)
}

// begin makes ready for a call. keys: how many distinct ones there are, if keyOf does not say it.
func (d *driver) begin(states []cells, keyOf []byte, keys int) {
	d.out.reset()
	for i := range d.out.sides {
		d.out.sides[i].reset()
	}
	d.fetched, d.changes = d.fetched[:0], d.changes[:0]
	clear(d.clocks[:])
	d.load(states, keyOf, keys)
}

// load takes the values of all distinct keys, those of a key side by side.
func (d *driver) load(states []cells, keyOf []byte, keys int) {
	d.values = d.values[:0]
	n := len(d.info.States)
	if n == 0 {
		return
	}
	if len(states) > 0 {
		keys = len(states[0].Ops)
	} else {
		for i := range len(keyOf) / 4 {
			keys = max(keys, int(u32At(keyOf, i))+1)
		}
	}
	if cap(d.values) < keys*n {
		d.values = make([]Value, 0, keys*n)
	}
	d.values = d.values[:keys*n]
	if len(states) < n {
		for i := range d.values {
			d.values[i] = Value{unread: true, memory: &d.memory}
		}
	}
	for i := range states {
		state := &states[i]
		at := d.prefetched[i]
		for key, op := range state.Ops {
			value := Value{memory: &d.memory}
			if op == 1 {
				from, to := u32At(state.Index, key), u32At(state.Index, key+1)
				if value.bytes = state.Data[from:to:to]; value.bytes == nil {
					value.bytes = []byte{}
				}
			}
			d.values[key*n+at] = value
		}
	}
}

// fetch reads a value on demand.
func (d *driver) fetch(value *Value, state int, key []byte) {
	if d.onDemand == nil {
		panic("the state " + d.info.States[state].Name + " is on demand, and no host is there to ask")
	}
	one := d.onDemand.GetMany(uint32(state), column{Data: key, Index: appendU32(appendU32(nil, 0), len(key))})
	value.unread = false
	if one.Ops[0] == 1 {
		if value.bytes = one.Data; value.bytes == nil {
			value.bytes = []byte{}
		}
	}
	d.fetched = append(d.fetched, fetched{state, value, key})
}

// finish ends a call that went well.
func (d *driver) finish(states []cells) result {
	d.flushFetched()
	d.flushTimers()
	return result{updates: d.store(len(states))}
}

// flushFetched hands over what became of values that were read on demand, two host calls for each state at most.
func (d *driver) flushFetched() {
	if len(d.fetched) == 0 {
		return
	}
	for state := range d.info.States {
		var put, values, deleted column
		for _, one := range d.fetched {
			switch {
			case one.state != state || !one.value.changed:
			case one.value.bytes == nil:
				deleted = appendString(deleted, one.key)
			default:
				put, values = appendString(put, one.key), appendString(values, one.value.bytes)
			}
		}
		if put.Index != nil {
			d.onDemand.PutMany(uint32(state), put, values)
		}
		if deleted.Index != nil {
			d.onDemand.DeleteMany(uint32(state), deleted)
		}
	}
}

func appendString(c column, bytes []byte) column {
	if c.Index == nil {
		c.Index = appendU32(nil, 0)
	}
	c.Data = append(c.Data, bytes...)
	c.Index = appendU32(c.Index, len(c.Data))
	return c
}

// store gives what became of each prefetched value; nil if nothing changed.
func (d *driver) store(states int) []cells {
	changed, bytes := false, 0
	for i := range d.values {
		if d.values[i].changed {
			changed = true
			bytes += len(d.values[i].bytes)
		}
	}
	if !changed || states == 0 {
		return nil
	}
	n := len(d.info.States)
	keys := len(d.values) / n
	updates := make([]cells, states)
	for i := range updates {
		state := d.prefetched[i]
		column := cells{
			Ops:   d.memory.allocate(keys)[:0],
			Data:  d.memory.allocate(bytes)[:0],
			Index: appendU32(d.memory.allocate(4 * (keys + 1))[:0], 0),
		}
		for key := range keys {
			value := &d.values[key*n+state]
			op := byte(0)
			switch {
			case value.changed && value.bytes != nil:
				op = 1
				column.Data = append(column.Data, value.bytes...)
			case value.changed:
				op = 2
			}
			column.Ops = append(column.Ops, op)
			column.Index = appendU32(column.Index, len(column.Data))
		}
		updates[i] = column
	}
	return updates
}

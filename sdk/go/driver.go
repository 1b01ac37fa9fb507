package weir

// driver runs an operator over the contract's batches.
type driver struct {
	operator Operator
	info     Info
	out      Output
	memory   arena
	// Reused from call to call.
	values []Value
}

func newDriver(operator Operator, emit func(port uint32, records batch)) *driver {
	d := &driver{operator: operator, info: operator.Info()}
	d.out.emit = emit
	d.out.sides = make([]Port, len(d.info.SideOutputs))
	for i := range d.out.sides {
		d.out.sides[i].number, d.out.sides[i].emit = uint32(i+1), emit
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
	d.out.reset()
	for i := range d.out.sides {
		d.out.sides[i].reset()
	}
	d.load(states)
	in := newInput(records)
	record := Record{Port: port}
	var refused []bad
	for i := range int(records.count) {
		in.read(i, &record)
		if len(states) > 0 {
			first := int(u32At(keyOf, i)) * len(states)
			record.values = d.values[first : first+len(states)]
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
	return result{updates: d.store(len(states))}
}

// load takes the values of all distinct keys, those of a key side by side.
func (d *driver) load(states []cells) {
	d.values = d.values[:0]
	if len(states) == 0 {
		return
	}
	for key, op := range states[0].ops {
		for _, state := range states {
			value := Value{memory: &d.memory}
			if op = state.ops[key]; op == 1 {
				from, to := u32At(state.index, key), u32At(state.index, key+1)
				if value.bytes = state.data[from:to:to]; value.bytes == nil {
					value.bytes = []byte{}
				}
			}
			d.values = append(d.values, value)
		}
	}
}

// store gives what became of each value; nil if nothing changed.
func (d *driver) store(states int) []cells {
	changed, bytes := false, 0
	for i := range d.values {
		if d.values[i].changed {
			changed = true
			bytes += len(d.values[i].bytes)
		}
	}
	if !changed {
		return nil
	}
	keys := len(d.values) / states
	updates := make([]cells, states)
	for state := range updates {
		column := cells{
			ops:   d.memory.allocate(keys)[:0],
			data:  d.memory.allocate(bytes)[:0],
			index: appendU32(d.memory.allocate(4 * (keys + 1))[:0], 0),
		}
		for key := range keys {
			value := &d.values[key*states+state]
			op := byte(0)
			switch {
			case value.changed && value.bytes != nil:
				op = 1
				column.data = append(column.data, value.bytes...)
			case value.changed:
				op = 2
			}
			column.ops = append(column.ops, op)
			column.index = appendU32(column.index, len(column.data))
		}
		updates[state] = column
	}
	return updates
}

package weir

// TimerKind is what a timer waits for.
type TimerKind string

const (
	// EventTime: the watermark of the operator's input.
	EventTime TimerKind = "event-time"
	// ProcessingTime: the clock on the wall.
	ProcessingTime TimerKind = "processing-time"
)

// Timer is a timer that is due. It is gone already: to hear of it again, set it again. Timers come by time and then by key. It and its
// bytes are valid until OnTimer returns, and are not to be changed.
type Timer struct {
	// Keyed is its key, with state and timers.
	Keyed
	Kind TimerKind
	// Payload that it was set with.
	Payload []byte
	// Time at which it was to fire, in milliseconds since the Unix epoch.
	Time int64
}

// Timers sets timers of one key and takes them away. Nothing of it counts if the call fails.
//
// A timer is (kind, key, time, payload): set twice, it fires once. Timers are part of the checkpoint. What is due already fires right
// after the call.
type Timers struct {
	driver *driver
	key    []byte
}

// SetEventTime sets a timer for when the watermark has passed time, in milliseconds since the Unix epoch. The payload has at most
// 64 KiB, and may be nil.
func (t Timers) SetEventTime(time int64, payload []byte) {
	t.driver.changeTimer(true, EventTime, t.key, time, payload)
}

// SetProcessingTime sets a timer for when the clock on the wall has passed time.
func (t Timers) SetProcessingTime(time int64, payload []byte) {
	t.driver.changeTimer(true, ProcessingTime, t.key, time, payload)
}

// Delete takes a timer away that was set with the same values; if there is none, nothing happens.
func (t Timers) Delete(kind TimerKind, time int64, payload []byte) {
	t.driver.changeTimer(false, kind, t.key, time, payload)
}

// Watermark says how far event time has come: no record of this time or less is expected any more. It is the least int64 before
// that is known, and the greatest once all input has ended. It is the same during a call.
func (t Timers) Watermark() int64 { return t.driver.clock(EventTime) }

// ProcessingTime gives the clock on the wall, in milliseconds since the Unix epoch. It is the same during a call.
func (t Timers) ProcessingTime() int64 { return t.driver.clock(ProcessingTime) }

// timerChange is a run of timers that are all set, or all taken away.
type timerChange struct {
	sets   bool
	kind   TimerKind
	timers Port
}

func (d *driver) changeTimer(sets bool, kind TimerKind, key []byte, time int64, payload []byte) {
	d.needTimers()
	if last := len(d.changes) - 1; last < 0 || d.changes[last].sets != sets || d.changes[last].kind != kind {
		// Memory of an earlier call serves again.
		if last+1 < cap(d.changes) {
			d.changes = d.changes[:last+2]
		} else {
			d.changes = append(d.changes, timerChange{})
		}
		change := &d.changes[last+1]
		change.sets, change.kind = sets, kind
		change.timers.reset()
		change.timers.whole = true
	}
	if payload == nil {
		payload = []byte{}
	}
	d.changes[len(d.changes)-1].timers.push(key, payload, time, nil)
}

func (d *driver) clock(kind TimerKind) int64 {
	d.needTimers()
	at := 0
	if kind == ProcessingTime {
		at = 1
	}
	if !d.clocks[at].known {
		d.clocks[at].known, d.clocks[at].now = true, d.timers.Current(string(kind))
	}
	return d.clocks[at].now
}

func (d *driver) needTimers() {
	if d.timers == nil {
		panic("an operator without OnTimer uses timers: nobody would hear of them")
	}
}

// flushTimers hands over what is to change, a host call for each run of the same.
func (d *driver) flushTimers() {
	for i := range d.changes {
		change := &d.changes[i]
		if change.sets {
			d.timers.RegisterMany(string(change.kind), change.timers.batch())
		} else {
			d.timers.DeleteMany(string(change.kind), change.timers.batch())
		}
	}
}

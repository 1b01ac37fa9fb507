// Package weir is the SDK for Weir operators in Go.
//
// An operator gets record after record. The package turns the host's batches into records and what is emitted into batches, over the
// component model's canonical ABI; nothing is generated. A plugin is a package main that registers one operator:
//
//	func init() { weir.Register(&WordCount{}) }
//	func main() {}
//
// Beyond that, a plugin implements what it needs: [Opener], [Closer], [TimerOperator], [EndOperator], [KeyEndOperator]; or it is a
// sink: [SinkWriter] and [SinkCommitter]. What the host must find among the exports is imported for its effect: the packages timers,
// endofinput, keyedstate and sink beside this one. [Register] says which one is missing.
//
// Tests run without Wasm, on a [Harness] or a [SinkHarness].
package weir

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

// Where the packages are that make a plugin export more.
const module = "github.com/weir-dataflow/weir/sdk/go/"

// Info is what a plugin says of itself.
type Info struct {
	// Name and Version of the plugin.
	Name, Version string
	// States by index. An operator with states is keyed: its input is partitioned by key.
	States []State
	// SideOutputs by index; the job file wires them as operator.name.
	SideOutputs []string
	// Inputs that it understands; 0 means any.
	Inputs uint32
}

// State is a declared state: one byte string for each key.
type State struct {
	// Name is what a checkpoint finds it by, [a-z][a-z0-9-]*. Renaming it is a migration.
	Name string
	// Version of the value's encoding, from 1: raise it when the encoding changes.
	Version uint32
	// OnDemand: the host reads it when [Keyed.State] asks for it, a call for each key, instead of for all keys of a batch before
	// Process. For state that few records need. The plugin must import the package keyedstate.
	OnDemand bool
}

// Operator is what a plugin implements. What must survive belongs into state: the host may drop an instance after any call.
type Operator interface {
	// Info must always give the same.
	Info() Info
	// Process handles one record. An error by [BadRecord] concerns this record: the host does with it what the job's
	// on_bad_record says, and makes the call again without it. One by [Retry] makes the host call again with the same input, a
	// bounded number of times. Any other fails the job's attempt. Nothing of a call that fails is applied.
	Process(record *Record, out *Output) error
}

// TimerOperator is implemented by operators with state whose keys can set timers: a window, a session, a time-out. The plugin must
// import the package timers.
//
// At the end of bounded input the watermark passes every event-time timer, those that are set meanwhile, too: one that always sets
// the next must look at [Timers.Watermark], which is the greatest int64 then. Timers of processing time are dropped.
type TimerOperator interface {
	Operator
	// OnTimer handles a timer that is due. There is no record to blame: a [BadRecord] fails the attempt, too.
	OnTimer(timer *Timer, out *Output) error
}

// EndOperator is implemented by operators that want to know of the end of bounded input. The plugin must import the package
// endofinput.
type EndOperator interface {
	Operator
	// OnEnd: input port has ended for good. It is not called at a stop, a failure or a swap, and never twice for one input.
	OnEnd(port uint32, out *Output) error
}

// KeyEndOperator is implemented by operators with state that has something to say when all input has ended. The plugin must import
// the package endofinput.
type KeyEndOperator interface {
	Operator
	// OnEndKey comes after the last input has ended: once for every key of this subtask that holds a value in some state that
	// is not OnDemand.
	OnEndKey(key *Keyed, out *Output) error
}

// Opener is implemented by operators with settings.
type Opener interface {
	// Open comes before all records. config is the job file's config as one JSON document, "{}" if there is none.
	Open(task Task, config []byte) error
}

// Closer is implemented by operators that want to hear of a clean end. It is not called after a trap or a crash.
type Closer interface {
	Close()
}

// Task is the part of the job that this instance is.
type Task struct {
	// Job and Operator, as the job file names them.
	Job, Operator string
	// Subtask is 0 … Parallelism - 1.
	Subtask, Parallelism uint32
	// Attempt of the job, from 1; a restart raises it.
	Attempt uint32
	// Grants of the job.
	Grants Grants
}

// Keyed is a key of the running call, with what is its own.
type Keyed struct {
	// Key: nil is null, which is not the same as empty; for state the two are the same key.
	Key []byte

	values []Value
	driver *driver
}

// State gives the value of state i (as counted in [Info].States) for the key.
func (k *Keyed) State(i int) *Value {
	value := &k.values[i]
	if value.unread {
		k.driver.fetch(value, i, k.Key)
	}
	return value
}

// Timers gives those of the key.
func (k *Keyed) Timers() Timers { return Timers{k.driver, k.Key} }

// Record is one record. It and its bytes are valid until Process returns, and are not to be changed.
type Record struct {
	// Keyed is its key, with state and timers.
	Keyed
	// Value: nil is null, which is not the same as empty.
	Value []byte
	// Time is the event time in milliseconds since the Unix epoch.
	Time int64
	// Port is the input that it came from, in the order of the job file's from.
	Port uint32

	headers []byte
}

// Header is one header of a record.
type Header struct {
	Name string
	// Value: nil is null.
	Value []byte
}

// Headers gives the record's headers in their order. [Output.Forward] keeps them.
func (r *Record) Headers() []Header {
	var headers []Header
	for rest := r.headers; len(rest) >= 8; {
		var header Header
		length := u32(rest)
		header.Name, rest = string(rest[4:4+length]), rest[4+length:]
		length, rest = u32(rest), rest[4:]
		if length != nullHeader {
			header.Value, rest = rest[:length:length], rest[length:]
		}
		headers = append(headers, header)
	}
	return headers
}

func encodeHeaders(headers []Header) []byte {
	var bytes []byte
	for _, header := range headers {
		bytes = append(appendU32(bytes, len(header.Name)), header.Name...)
		if header.Value == nil {
			bytes = binary.LittleEndian.AppendUint32(bytes, nullHeader)
		} else {
			bytes = append(appendU32(bytes, len(header.Value)), header.Value...)
		}
	}
	return bytes
}

// Value is the value of one state for one key. The host reads it before the call; what changes goes back with the result.
type Value struct {
	bytes   []byte
	changed bool
	// unread: on demand, and nobody has asked for it yet.
	unread bool
	memory *arena
}

// Get gives the value; nil if there is none. It is valid until Set, and not to be changed.
func (v *Value) Get() []byte { return v.bytes }

// Set sets the value to a copy of bytes; nil sets an empty one.
func (v *Value) Set(bytes []byte) {
	if !v.changed || v.bytes == nil || cap(v.bytes) < len(bytes) {
		v.bytes = v.memory.allocate(len(bytes))
	}
	v.bytes = v.bytes[:len(bytes)]
	copy(v.bytes, bytes)
	v.changed = true
}

// Fixed gives the value as so many bytes to be changed in place, all zero if there was none; it counts as changed. For a value of
// fixed size this saves a copy each way. It is an error if what is stored has another size: then the state's version must be raised.
func (v *Value) Fixed(size int) ([]byte, error) {
	if v.bytes == nil {
		v.bytes = v.memory.allocate(size)
		clear(v.bytes)
	} else if len(v.bytes) != size {
		return nil, v.otherSize(size)
	}
	v.changed = true
	return v.bytes, nil
}

func (v *Value) otherSize(size int) error {
	return fmt.Errorf("a state holds %d bytes, not %d", len(v.bytes), size)
}

// Delete deletes the value; an absent one is no error.
func (v *Value) Delete() {
	v.changed = v.changed || v.bytes != nil
	v.bytes = nil
}

type badRecord string

func (b badRecord) Error() string { return string(b) }

// BadRecord says that the record can't be processed, and why.
func BadRecord(why string) error { return badRecord(why) }

type retry string

func (r retry) Error() string { return string(r) }

// Retry says that the call may succeed if it is made again.
func Retry(why string) error { return retry(why) }

func isBadRecord(err error) bool {
	var bad badRecord
	return errors.As(err, &bad)
}

func isRetry(err error) bool {
	var again retry
	return errors.As(err, &again)
}

// Level of a log line.
type Level string

// Levels that the host knows.
const (
	LevelTrace Level = "trace"
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// Log writes to the host's log, which drops lines above a rate. Standard output and error go there, too.
func Log(level Level, message string) { hostLog(string(level), message) }

var (
	registered     Operator
	registeredSink *sinkDriver
)

// Register makes an operator the one that this plugin is. Call it once, in an init function. It panics if the plugin does not
// import the packages that make the host find what the operator implements.
func Register(operator Operator) {
	if registered != nil || registeredSink != nil {
		panic("weir.Register was called twice: a plugin is one operator or one sink")
	}
	if why := whatIsNotImported(operator); why != "" {
		panic(why)
	}
	registered = operator
}

// whatIsNotImported compares what an operator implements with the packages that the plugin imports.
func whatIsNotImported(operator Operator) string {
	_, timers := operator.(TimerOperator)
	_, end := operator.(EndOperator)
	_, endKey := operator.(KeyEndOperator)
	onDemand := false
	for _, state := range operator.Info().States {
		onDemand = onDemand || state.OnDemand
	}
	for _, part := range []struct {
		wanted, imported bool
		name, what       string
	}{
		{timers, abi.HasTimers, "timers", "OnTimer"},
		{end || endKey, abi.HasEndOfInput, "endofinput", "OnEnd or OnEndKey"},
		{onDemand, abi.HasKeyedState, "keyedstate", "a state with OnDemand"},
		{false, abi.HasSink, "sink", "a sink"},
	} {
		switch {
		case part.wanted && !part.imported:
			return "the operator has " + part.what + ": the plugin must import _ \"" + module + part.name + "\""
		case part.imported && !part.wanted:
			return "the plugin imports \"" + module + part.name + "\", but the operator does not have " + part.what
		}
	}
	return ""
}

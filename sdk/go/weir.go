// Package weir is the SDK for Weir operators in Go.
//
// An operator gets record after record. The package turns the host's batches into records and what is emitted into batches, over the
// component model's canonical ABI; nothing is generated. A plugin is a package main that registers one operator:
//
//	func init() { weir.Register(&WordCount{}) }
//	func main() {}
//
// Tests run without Wasm, on a [Harness].
package weir

import "errors"

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
}

// Record is one record. It and its bytes are valid until Process returns, and are not to be changed.
type Record struct {
	// Key and Value: nil is null, which is not the same as empty.
	Key, Value []byte
	// Time is the event time in milliseconds since the Unix epoch.
	Time int64
	// Port is the input that it came from, in the order of the job file's from.
	Port uint32

	values  []Value
	headers []byte
}

// State gives the value of state i (as counted in [Info].States) for the record's key.
func (r *Record) State(i int) *Value { return &r.values[i] }

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

// Value is the value of one state for one key. The host reads it before the call; what changes goes back with the result.
type Value struct {
	bytes   []byte
	changed bool
	memory  *arena
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

var registered Operator

// Register makes an operator the one that this plugin is. Call it once, in an init function.
func Register(operator Operator) {
	if registered != nil {
		panic("weir.Register was called twice: a plugin is one operator")
	}
	registered = operator
}

package weir

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

// SinkInfo is what a sink says of itself.
type SinkInfo struct {
	// Name and Version of the plugin.
	Name, Version string
	// CommittableVersions that this build can commit and abort.
	CommittableVersions []uint32
}

// SinkWriter is the writing half of a transactional sink, one for each subtask: Open, then again and again Begin, Writes and Prepare. It
// may implement [Closer]: what is neither prepared nor committed is given up then.
//
// The two halves never share memory: the committer lives in another instance, maybe in another process years later. What it needs
// stands in the committable. An error by [Retry] makes the host call again, any other fails the attempt.
type SinkWriter interface {
	// Info must always give the same.
	Info() SinkInfo
	// Open comes before all else. config is the job file's config as one JSON document, "{}" if there is none.
	Open(task Task, config []byte) error
	// Begin opens the transaction that the following writes belong to. It is named
	// <lineage>.<generation>.<sink>.<subtask>.<number>, and no name is ever used twice.
	Begin(transaction string) error
	// Write writes records into the open transaction. [BadRecords] name those that can't be written. Of a [Folder] only Append and
	// Read may be called here.
	Write(records *Batch) error
	// Prepare comes at a barrier: flush, stage durably, and say what to commit; nil if nothing was written. Nothing may be visible
	// outside yet. When it returns, a crash of this process must not lose what was written. The checkpoint is one such as 3-17.
	Prepare(checkpoint string, endOfInput bool) (*Prepared, error)
}

// Prepared is what Prepare hands over.
type Prepared struct {
	// Version of Bytes; one of [SinkInfo].CommittableVersions.
	Version uint32
	// Bytes that the committer needs.
	Bytes []byte
}

// SinkCommitter is the committing half, one for each sink and job: it never meets a record. It may implement [Closer].
type SinkCommitter interface {
	// Open comes before all else.
	Open(job, sink string, config []byte, grants Grants) error
	// Commit is idempotent. It is called in order; after the first that is not committed the rest is not tried.
	Commit(what Committable) Outcome
	// Status says what became of a committable, by asking the outside; it changes nothing. NotCommitted: not yet, can be.
	Status(what Committable) Outcome
	// Abort is idempotent. It gives up what was staged under this transaction's name.
	Abort(transaction string) AbortOutcome
	// ListDangling gives every transaction of this job and sink that exists outside, whatever its lineage, generation and subtask.
	ListDangling() ([]string, error)
	// Forget: a later completed checkpoint no longer contains it. What was kept to answer AlreadyCommitted may go.
	Forget(transaction string) error
}

// Committable is a prepared transaction, as the committer gets it.
type Committable struct {
	// ID is the transaction's name that Begin was given.
	ID string
	// Checkpoint at which it was prepared, such as 3-17.
	Checkpoint string
	// Version of Bytes, chosen by the author.
	Version uint32
	// Bytes that Prepare gave.
	Bytes []byte
}

// Outcome is what became of one committable.
type Outcome struct {
	Is OutcomeKind
	// Why, if it is not committed.
	Why string
}

// OutcomeKind is what can become of a committable.
type OutcomeKind uint32

const (
	// Committed now.
	Committed OutcomeKind = iota
	// AlreadyCommitted before.
	AlreadyCommitted
	// NotCommitted for certain; try again.
	NotCommitted
	// Unknown: nobody can say; Status is asked before the next try.
	Unknown
	// Lost: certainly not committed, and never will be.
	Lost
)

// AbortOutcome is what became of an abort.
type AbortOutcome struct {
	Is AbortKind
	// Why, if it has to be tried again.
	Why string
}

// AbortKind is what can become of an abort.
type AbortKind uint32

const (
	// Aborted: it is gone, now or before.
	Aborted AbortKind = iota
	// WasCommitted already, and stays so.
	WasCommitted
	// NotAborted: try again.
	NotAborted
)

// Batch is the records of a call.
type Batch struct {
	in     input
	record Record
}

// Len is the number of records.
func (b *Batch) Len() int { return int(b.in.Count) }

// Bytes is the size of all keys and values.
func (b *Batch) Bytes() int { return len(b.in.Data) }

// Record gives record i. It is valid until the next one is asked for; it has no state and no timers.
func (b *Batch) Record(i int) *Record {
	b.in.read(i, &b.record)
	return &b.record
}

// All gives each record with its index.
func (b *Batch) All() iter.Seq2[int, *Record] {
	return func(yield func(int, *Record) bool) {
		for i := range b.Len() {
			if !yield(i, b.Record(i)) {
				return
			}
		}
	}
}

// RegisterSink makes two halves the sink that this plugin is. Call it once, in an init function.
func RegisterSink(writer SinkWriter, committer SinkCommitter) {
	if registered != nil || registeredSink != nil {
		panic("weir.RegisterSink was called twice: a plugin is one operator or one sink")
	}
	if !abi.HasSink {
		panic("a sink's plugin must import _ \"" + module + "sink\"")
	}
	if abi.HasTimers || abi.HasEndOfInput || abi.HasKeyedState {
		panic("a sink's plugin imports timers, endofinput or keyedstate, which belong to operators")
	}
	registeredSink = &sinkDriver{writer, committer}
}

// sinkDriver runs the two halves.
type sinkDriver struct {
	writer    SinkWriter
	committer SinkCommitter
}

func (d *sinkDriver) write(records batch) error {
	return d.writer.Write(&Batch{in: newInput(records)})
}

// commit commits in order and stops trying at the first that is not done.
func (d *sinkDriver) commit(what []Committable) []Outcome {
	outcomes, stoppedAt := make([]Outcome, len(what)), ""
	for i, committable := range what {
		if stoppedAt != "" {
			outcomes[i] = Outcome{NotCommitted, "not tried: " + stoppedAt + " before it is not committed"}
			continue
		}
		outcomes[i] = d.committer.Commit(committable)
		if is := outcomes[i].Is; is != Committed && is != AlreadyCommitted {
			stoppedAt = committable.ID
		}
	}
	return outcomes
}

func (d *sinkDriver) forget(transactions []string) error {
	for _, transaction := range transactions {
		if err := d.committer.Forget(transaction); err != nil {
			return err
		}
	}
	return nil
}

func closeIfItCan(half any) {
	if closer, ok := half.(Closer); ok {
		closer.Close()
	}
}

// badOf gives the bad records that an error names; nil if it is another error.
func badOf(err error) []bad {
	var named BadRecords
	if !errors.As(err, &named) {
		return nil
	}
	refused := []bad{}
	for _, index := range slices.Sorted(maps.Keys(named)) {
		refused = append(refused, bad{uint32(index), named[index]})
	}
	return refused
}

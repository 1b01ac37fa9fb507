package weir

import "fmt"

// SinkHarness runs the two halves of a sink in a test, on folders in memory: one open writer, and a fresh committer for every call, as
// after a restart.
type SinkHarness struct {
	make    func() (SinkWriter, SinkCommitter)
	writer  SinkWriter
	folders *MemoryFolders
	sink    string
	config  []byte
	open    string
}

// OpenSinkHarness opens the writer of a sink. make gives two halves that have not been used.
func OpenSinkHarness(make func() (SinkWriter, SinkCommitter), folders *MemoryFolders, sink, config string) (*SinkHarness, error) {
	h := &SinkHarness{make: make, folders: folders, sink: sink, config: []byte(config)}
	h.writer, _ = make()
	task := Task{Job: "test", Operator: sink, Parallelism: 1, Attempt: 1, Grants: folders.Grants()}
	return h, h.writer.Open(task, h.config)
}

// Begin opens a transaction.
func (h *SinkHarness) Begin(transaction string) error {
	h.open = transaction
	return h.writer.Begin(transaction)
}

// Write writes one batch.
func (h *SinkHarness) Write(records ...Emitted) error {
	h.folders.writing = true
	defer func() { h.folders.writing = false }()
	return (&sinkDriver{writer: h.writer}).write(pack(records))
}

// Prepare prepares the open transaction; nil if there is nothing to commit.
func (h *SinkHarness) Prepare(checkpoint string, endOfInput bool) (*Committable, error) {
	if h.open == "" {
		panic("no transaction is open")
	}
	id := h.open
	h.open = ""
	prepared, err := h.writer.Prepare(checkpoint, endOfInput)
	if prepared == nil || err != nil {
		return nil, err
	}
	for _, version := range h.writer.Info().CommittableVersions {
		if version == prepared.Version {
			return &Committable{id, checkpoint, prepared.Version, prepared.Bytes}, nil
		}
	}
	return nil, fmt.Errorf("version %d of a committable is not declared", prepared.Version)
}

// Commit commits in order.
func (h *SinkHarness) Commit(what ...Committable) []Outcome {
	return (&sinkDriver{committer: h.committer()}).commit(what)
}

// Status asks what became of one.
func (h *SinkHarness) Status(what Committable) Outcome { return h.committer().Status(what) }

// Abort aborts one.
func (h *SinkHarness) Abort(transaction string) AbortOutcome { return h.committer().Abort(transaction) }

// ListDangling lists what exists outside.
func (h *SinkHarness) ListDangling() ([]string, error) { return h.committer().ListDangling() }

// Forget forgets one.
func (h *SinkHarness) Forget(transaction string) error { return h.committer().Forget(transaction) }

// Close closes the writer.
func (h *SinkHarness) Close() { closeIfItCan(h.writer) }

func (h *SinkHarness) committer() SinkCommitter {
	_, committer := h.make()
	if err := committer.Open("test", h.sink, h.config, h.folders.Grants()); err != nil {
		panic(fmt.Sprintf("the committer does not open: %v", err))
	}
	return committer
}

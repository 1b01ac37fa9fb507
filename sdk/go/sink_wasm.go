//go:build wasip1

package weir

import (
	"bytes"
	"unsafe"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

// sinkExports lay out what the calls of a sink give.
type sinkExports struct{}

func theSink() *sinkDriver {
	if registeredSink == nil {
		panic("no sink: call weir.RegisterSink in an init function")
	}
	return registeredSink
}

func (sinkExports) Describe() unsafe.Pointer {
	info := theSink().writer.Info()
	w := begin()
	w.text(info.Name)
	w.text(info.Version)
	w.records(len(info.CommittableVersions), func(w *writer, i int) { w.u32(info.CommittableVersions[i]) })
	return w.end()
}

func (sinkExports) Open(job, sink string, subtask, parallelism, attempt uint32, config []byte) unsafe.Pointer {
	task := Task{Job: job, Operator: sink, Subtask: subtask, Parallelism: parallelism, Attempt: attempt}
	return unit(theSink().writer.Open(task, bytes.Clone(config)))
}

func (sinkExports) Begin(transaction string) unsafe.Pointer {
	return unit(theSink().writer.Begin(transaction))
}

func (sinkExports) Write(records batch) unsafe.Pointer {
	err := theSink().write(records)
	refused := badOf(err)
	if refused == nil {
		return unit(err)
	}
	w := begin()
	w.u32(1)
	w.badRecords(refused)
	return w.end()
}

func (sinkExports) Prepare(checkpoint string, endOfInput bool) unsafe.Pointer {
	prepared, err := theSink().writer.Prepare(checkpoint, endOfInput)
	if err != nil {
		return unit(err)
	}
	w := begin()
	w.u32(0)
	if prepared == nil {
		w.u32(0)
	} else {
		w.u32(1)
		w.u32(prepared.Version)
		w.list(prepared.Bytes)
	}
	return w.end()
}

func (sinkExports) Close() { closeIfItCan(theSink().writer) }

func (sinkExports) OpenCommitter(job, sink string, config []byte) unsafe.Pointer {
	return unit(theSink().committer.Open(job, sink, bytes.Clone(config), Grants{}))
}

func (sinkExports) Commit(what []abi.Committable) unsafe.Pointer {
	return outcomes(theSink().commit(committables(what)))
}

func (sinkExports) Status(what []abi.Committable) unsafe.Pointer {
	given := make([]Outcome, len(what))
	for i, committable := range committables(what) {
		given[i] = theSink().committer.Status(committable)
	}
	return outcomes(given)
}

func (sinkExports) Abort(transactions []string) unsafe.Pointer {
	given := make([]AbortOutcome, len(transactions))
	for i, transaction := range transactions {
		given[i] = theSink().committer.Abort(transaction)
	}
	w := begin()
	w.records(len(given), func(w *writer, i int) {
		w.u32(uint32(given[i].Is))
		w.text(given[i].Why)
	})
	return w.end()
}

func (sinkExports) ListDangling() unsafe.Pointer {
	dangling, err := theSink().committer.ListDangling()
	if err != nil {
		return unit(err)
	}
	w := begin()
	w.u32(0)
	w.records(len(dangling), func(w *writer, i int) { w.text(dangling[i]) })
	return w.end()
}

func (sinkExports) Forget(transactions []string) unsafe.Pointer {
	return unit(theSink().forget(transactions))
}

func (sinkExports) CloseCommitter() { closeIfItCan(theSink().committer) }

func committables(what []abi.Committable) []Committable {
	own := make([]Committable, len(what))
	for i, committable := range what {
		own[i] = Committable(committable)
		own[i].Bytes = bytes.Clone(committable.Bytes)
	}
	return own
}

func outcomes(given []Outcome) unsafe.Pointer {
	w := begin()
	w.records(len(given), func(w *writer, i int) {
		w.u32(uint32(given[i].Is))
		w.text(given[i].Why)
	})
	return w.end()
}

package main

import (
	"errors"
	"fmt"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

// writer appends to the staged file of the open transaction.
type writer struct {
	out weir.Folder
	// The open transaction, and how many bytes were appended: an empty one leaves no file.
	open  *staged
	bytes uint64
	// Lines of the running batch; kept for its memory.
	lines []byte
}

func (*writer) Info() weir.SinkInfo {
	return weir.SinkInfo{Name: "file-sink", Version: "0.1.0", CommittableVersions: []uint32{version}}
}

func (w *writer) Open(task weir.Task, config []byte) error {
	w.out = task.Grants.Folder(grant)
	return checkConfig(config)
}

func (w *writer) Begin(transaction string) error {
	open, err := stagedAs(transaction)
	if err != nil {
		return err
	}
	if err := w.out.Mkdir(open.folder); err != nil {
		return err
	}
	// An identity is never used twice, so nothing can lie there. If something does, it is not ours to append to.
	switch there, err := w.out.Exists(open.file); {
	case err != nil:
		return err
	case there:
		return fmt.Errorf("%s is there already: is another job using this folder?", open.file)
	}
	w.open, w.bytes = &open, 0
	return nil
}

func (w *writer) Write(records *weir.Batch) error {
	if records.Len() == 0 {
		return nil
	}
	if w.open == nil {
		return errors.New("write without begin")
	}
	w.lines = w.lines[:0]
	for _, record := range records.All() {
		if record.Value == nil {
			return errors.New("a record's value is null, which a line can't say")
		}
		w.lines = append(append(w.lines, record.Value...), '\n')
	}
	if err := w.out.Append(w.open.file, w.lines); err != nil {
		return err
	}
	w.bytes += uint64(len(w.lines))
	return nil
}

func (w *writer) Prepare(checkpoint string, _ bool) (*weir.Prepared, error) {
	open := w.open
	if open == nil {
		return nil, errors.New("prepare without begin")
	}
	w.open = nil
	if w.bytes == 0 {
		return nil, nil
	}
	if err := w.makeDurable(open); err != nil {
		return nil, err
	}
	to := target{fmt.Sprintf("part-%d-%s", open.subtask, checkpoint), w.bytes}
	return &weir.Prepared{Version: version, Bytes: to.encode()}, nil
}

// makeDurable makes durable the content first, then the marker that vouches for it, then the names of both. The folders were made
// durable by Mkdir.
//
// At last it looks at the staged file: a newer generation may have aborted this transaction meanwhile. That one removes the marker
// again after the staged file, so one of the two sees the other.
func (w *writer) makeDurable(open *staged) error {
	if err := w.out.Sync(open.file); err != nil {
		return err
	}
	if err := w.out.Append(open.marker, nil); err != nil {
		return err
	}
	if err := w.out.Sync(open.marker); err != nil {
		return err
	}
	if err := w.out.Sync(open.folder); err != nil {
		return err
	}
	switch there, err := w.out.Exists(open.file); {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%s was aborted by somebody else", open.file)
	}
	return nil
}

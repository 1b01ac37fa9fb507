// {{name}}: writes each value and a newline to files that appear whole, in the granted folder out.
//
// .staging/<transaction> is what was written; beside it <transaction>.prepared, once all of it is durable. A commit is one rename to
// part-<subtask>-<checkpoint>. Hence: both there = prepared; the marker alone = committed, even when a reader has taken the file away;
// no marker = never prepared, or aborted.
package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	weir "github.com/weir-dataflow/weir/sdk/go"
	_ "github.com/weir-dataflow/weir/sdk/go/sink"
)

func init() { weir.RegisterSink(&writer{}, &committer{}) }

func main() {}

const staging = ".staging"

func staged(transaction string) string { return staging + "/" + transaction }

func marker(transaction string) string { return staging + "/" + transaction + ".prepared" }

// writer is the writing half: one for each subtask.
type writer struct {
	out         weir.Folder
	subtask     uint32
	transaction string
	bytes       int
}

func (*writer) Info() weir.SinkInfo {
	return weir.SinkInfo{Name: "{{name}}", Version: "0.1.0", CommittableVersions: []uint32{1}}
}

func (w *writer) Open(task weir.Task, config []byte) error {
	w.out, w.subtask = task.Grants.Folder("out"), task.Subtask
	return nil
}

func (w *writer) Begin(transaction string) error {
	w.transaction, w.bytes = transaction, 0
	return w.out.Mkdir(staging)
}

func (w *writer) Write(records *weir.Batch) error {
	var lines []byte
	for _, record := range records.All() {
		lines = append(append(lines, record.Value...), '\n')
	}
	w.bytes += len(lines)
	if len(lines) == 0 {
		return nil
	}
	return w.out.Append(staged(w.transaction), lines)
}

func (w *writer) Prepare(checkpoint string, endOfInput bool) (*weir.Prepared, error) {
	if w.bytes == 0 {
		return nil, nil
	}
	// Content first, then the marker that vouches for it, then the names of both.
	steps := []func() error{
		func() error { return w.out.Sync(staged(w.transaction)) },
		func() error { return w.out.Append(marker(w.transaction), nil) },
		func() error { return w.out.Sync(marker(w.transaction)) },
		func() error { return w.out.Sync(staging) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	// What the committer needs: it runs in another instance, maybe in another process years later.
	return &weir.Prepared{Version: 1, Bytes: fmt.Appendf(nil, "part-%d-%s", w.subtask, checkpoint)}, nil
}

// committer is the committing half: one for the job.
type committer struct{ out weir.Folder }

func (c *committer) Open(job, sink string, config []byte, grants weir.Grants) error {
	c.out = grants.Folder("out")
	return nil
}

// look says whether the staged file is there, and whether its marker is.
func (c *committer) look(transaction string) (file, prepared bool, err error) {
	if file, err = c.out.Exists(staged(transaction)); err == nil {
		prepared, err = c.out.Exists(marker(transaction))
	}
	return file, prepared, err
}

func (c *committer) Commit(what weir.Committable) weir.Outcome {
	is := c.Status(what)
	switch is.Is {
	case weir.NotCommitted:
		done, err := c.out.Rename(staged(what.ID), string(what.Bytes))
		if err != nil {
			return weir.Outcome{Is: weir.NotCommitted, Why: err.Error()}
		}
		if !done {
			return weir.Outcome{Is: weir.Lost, Why: string(what.Bytes) + " is there already, and is another file"}
		}
		return weir.Outcome{Is: weir.Committed}
	case weir.AlreadyCommitted:
		// Who renamed it may have died before the names were durable.
		if err := errors.Join(c.out.Sync(""), c.out.Sync(staging)); err != nil {
			return weir.Outcome{Is: weir.NotCommitted, Why: err.Error()}
		}
	case weir.Unknown:
		return weir.Outcome{Is: weir.NotCommitted, Why: is.Why}
	}
	return is
}

func (c *committer) Status(what weir.Committable) weir.Outcome {
	file, prepared, err := c.look(what.ID)
	switch {
	case err != nil:
		return weir.Outcome{Is: weir.Unknown, Why: err.Error()}
	case file && prepared:
		return weir.Outcome{Is: weir.NotCommitted, Why: "prepared, not committed yet"}
	case prepared:
		return weir.Outcome{Is: weir.AlreadyCommitted}
	}
	return weir.Outcome{Is: weir.Lost, Why: "it is not prepared any more"}
}

// Abort removes the marker first, and durably: alone it would say committed.
func (c *committer) Abort(transaction string) weir.AbortOutcome {
	file, prepared, err := c.look(transaction)
	if err == nil && prepared && !file {
		return weir.AbortOutcome{Is: weir.WasCommitted}
	}
	for _, path := range []string{marker(transaction), staged(transaction)} {
		var removed bool
		if err == nil {
			removed, err = c.out.Remove(path)
		}
		if err == nil && removed {
			err = c.out.Sync(staging)
		}
	}
	if err != nil {
		return weir.AbortOutcome{Is: weir.NotAborted, Why: err.Error()}
	}
	return weir.AbortOutcome{Is: weir.Aborted}
}

func (c *committer) ListDangling() ([]string, error) {
	names, err := c.out.List(staging)
	if err != nil {
		return nil, weir.Retry(err.Error())
	}
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".prepared")
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (c *committer) Forget(transaction string) error {
	file, _, err := c.look(transaction)
	if err == nil && file {
		return errors.New(transaction + " is to be forgotten, but it is not committed")
	}
	if err == nil {
		_, err = c.out.Remove(marker(transaction))
	}
	if err != nil {
		return weir.Retry(err.Error())
	}
	return nil
}

package weir

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

// fileOf writes values into one file and makes it visible by a rename.
type fileOf struct {
	out  Folder
	open string
}

type committerOf struct{ out Folder }

func newFileSink() (SinkWriter, SinkCommitter) { return &fileOf{}, &committerOf{} }

func (*fileOf) Info() SinkInfo { return SinkInfo{"file-of", "1", []uint32{3}} }

func (f *fileOf) Open(task Task, config []byte) error {
	f.out = task.Grants.Folder("out")
	return f.out.Mkdir("staged")
}

func (f *fileOf) Begin(transaction string) error {
	f.open = "staged/" + transaction
	return nil
}

func (f *fileOf) Write(records *Batch) error {
	refused := BadRecords{}
	for i, record := range records.All() {
		if record.Value == nil {
			refused[i] = "null"
		} else if err := f.out.Append(f.open, record.Value); err != nil {
			return err
		}
	}
	if len(refused) > 0 {
		return refused
	}
	return nil
}

func (f *fileOf) Prepare(checkpoint string, endOfInput bool) (*Prepared, error) {
	if there, err := f.out.Exists(f.open); !there || err != nil {
		return nil, err
	}
	return &Prepared{3, []byte(checkpoint)}, errors.Join(f.out.Sync(f.open), f.out.Sync("staged"))
}

func (c *committerOf) Open(job, sink string, config []byte, grants Grants) error {
	c.out = grants.Folder("out")
	return nil
}

func (c *committerOf) Commit(what Committable) Outcome {
	if is := c.Status(what); is.Is != NotCommitted {
		return is
	}
	if done, err := c.out.Rename("staged/"+what.ID, "part-"+string(what.Bytes)); err != nil || !done {
		return Outcome{Lost, "taken"}
	}
	return Outcome{Is: Committed}
}

func (c *committerOf) Status(what Committable) Outcome {
	switch there, err := c.out.Exists("part-" + string(what.Bytes)); {
	case err != nil:
		return Outcome{Unknown, err.Error()}
	case there:
		return Outcome{Is: AlreadyCommitted}
	}
	return Outcome{Is: NotCommitted}
}

func (c *committerOf) Abort(transaction string) AbortOutcome {
	if _, err := c.out.Remove("staged/" + transaction); err != nil {
		return AbortOutcome{NotAborted, err.Error()}
	}
	return AbortOutcome{Is: Aborted}
}

func (c *committerOf) ListDangling() ([]string, error) { return c.out.List("staged") }

func (*committerOf) Forget(transaction string) error { return nil }

func TestASinkInATest(t *testing.T) {
	folders := NewMemoryFolders("out")
	sink, err := OpenSinkHarness(newFileSink, folders, "out", "{}")
	if err != nil {
		t.Fatal(err)
	}
	var ready []Committable
	for _, transaction := range []string{"one", "two"} {
		sink.Begin(transaction)
		if err := sink.Write(Text("k", "v", 1), Emitted{Value: []byte("w")}); err != nil {
			t.Fatal(err)
		}
		committable, err := sink.Prepare("3-"+transaction, false)
		if err != nil || committable.ID != transaction {
			t.Fatal(committable, err)
		}
		ready = append(ready, *committable)
	}
	sink.Begin("empty")
	if committable, err := sink.Prepare("3-3", true); committable != nil || err != nil {
		t.Error(committable, err)
	}
	err = sink.Write(Emitted{Value: []byte("x")}, Emitted{})
	if named := badOf(err); !reflect.DeepEqual(named, []bad{{1, "null"}}) {
		t.Error(err)
	}
	folders.Crash()
	if dangling, _ := sink.ListDangling(); !slices.Equal(dangling, []string{"one", "two"}) {
		t.Error(dangling)
	}
	folders.FailAfter(1)
	if got := sink.Commit(ready...); got[0].Is != Lost || got[1] != (Outcome{NotCommitted, "not tried: one before it is not committed"}) {
		t.Error(got)
	}
	folders.Crash()
	if got := sink.Commit(ready[0]); got[0].Is != Committed {
		t.Error(got)
	}
	folders.Crash()
	if got := sink.Commit(ready[0]); got[0].Is != AlreadyCommitted {
		t.Error(got)
	}
	if got := sink.Abort("two"); got.Is != Aborted {
		t.Error(got)
	}
	if got := folders.Files("out"); !reflect.DeepEqual(got, map[string]string{"part-3-one": "vw"}) {
		t.Error(got)
	}
}

func TestInWriteOnlyAppendAndReadAreAllowed(t *testing.T) {
	folders := NewMemoryFolders("out")
	folder := folders.Grants().Folder("out")
	folders.writing = true
	if folder.Append("f", []byte("abc")) != nil || folder.Sync("f") == nil {
		t.Error("only Append and Read are allowed")
	}
	if bytes, err := folder.Read("f", 1, 5); string(bytes) != "bc" || err != nil {
		t.Error(bytes, err)
	}
	folders.Crash()
	if there, err := folder.Exists("f"); there || err != nil {
		t.Error("it was not synced")
	}
	if folder.Mkdir("../x") == nil || folders.Grants().Folder("other").Sync("") == nil {
		t.Error("that is not granted")
	}
	if folder.Mkdir("a/b") != nil || folder.Append("no/f", nil) == nil {
		t.Error("its folder must be there")
	}
	folders.Crash()
	if names, err := folder.List("a"); !slices.Equal(names, []string{"b"}) || err != nil {
		t.Error(names, err)
	}
}

package main

import (
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

// prepared gives a sink with two records that are prepared.
func prepared(t *testing.T) (*weir.MemoryFolders, *weir.SinkHarness, weir.Committable) {
	t.Helper()
	folders := weir.NewMemoryFolders("out")
	halves := func() (weir.SinkWriter, weir.SinkCommitter) { return &writer{}, &committer{} }
	sink, err := weir.OpenSinkHarness(halves, folders, "out", "{}")
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Begin("a.1.out.0.1"); err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(weir.Text("k", "one", 1), weir.Text("k", "two", 2)); err != nil {
		t.Fatal(err)
	}
	what, err := sink.Prepare("1-7", false)
	if err != nil || what == nil {
		t.Fatal(what, err)
	}
	// What is prepared survives a loss of power.
	folders.Crash()
	return folders, sink, *what
}

func TestRecordsAppearWithTheCommitAndOnce(t *testing.T) {
	folders, sink, what := prepared(t)
	if text, there := folders.Files("out")["part-0-1-7"]; there {
		t.Errorf("it is visible before the commit: %q", text)
	}
	for _, want := range []weir.OutcomeKind{weir.Committed, weir.AlreadyCommitted} {
		if got := sink.Commit(what); got[0].Is != want {
			t.Error(got)
		}
	}
	if text := folders.Files("out")["part-0-1-7"]; text != "one\ntwo\n" {
		t.Errorf("%q", text)
	}
}

func TestWhatIsAbortedIsGone(t *testing.T) {
	_, sink, what := prepared(t)
	if got := sink.Abort(what.ID); got.Is != weir.Aborted {
		t.Error(got)
	}
	if dangling, err := sink.ListDangling(); len(dangling) > 0 || err != nil {
		t.Error(dangling, err)
	}
	if got := sink.Status(what); got.Is != weir.Lost {
		t.Error(got)
	}
}

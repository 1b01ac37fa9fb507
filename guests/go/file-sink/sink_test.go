package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

const lineage = "0123456789abcdef0123456789abcdef"

func identity(number string) string { return lineage + ".3.out-files.1." + number }

func staging(number string) string {
	return ".weir-staging/" + lineage + "/out-files/" + identity(number)
}

func halves() (weir.SinkWriter, weir.SinkCommitter) { return &writer{}, &committer{} }

func open(t *testing.T, folders *weir.MemoryFolders) *weir.SinkHarness {
	t.Helper()
	sink, err := weir.OpenSinkHarness(halves, folders, "out-files", "{}")
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func line(text string) weir.Emitted { return weir.Text("k", text, 1) }

// ready is one prepared transaction of two records.
func ready(t *testing.T, folders *weir.MemoryFolders, number string) weir.Committable {
	t.Helper()
	sink := open(t, folders)
	err := errors.Join(sink.Begin(identity(number)), sink.Write(line("one")), sink.Write(line("two")))
	committable, prepareErr := sink.Prepare("3-"+number, false)
	if err != nil || prepareErr != nil || committable == nil {
		t.Fatal(err, prepareErr, committable)
	}
	return *committable
}

func expectFiles(t *testing.T, folders *weir.MemoryFolders, want map[string]string) {
	t.Helper()
	if got := folders.Files("out"); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

func expect(t *testing.T, got []weir.Outcome, is weir.OutcomeKind, why string) {
	t.Helper()
	if got[0].Is != is || !strings.Contains(got[0].Why, why) {
		t.Errorf("%v", got)
	}
}

func TestRecordsAppearWithTheCommitAndWhole(t *testing.T) {
	folders := weir.NewMemoryFolders("out")
	committable := ready(t, folders, "1")
	folders.Crash()
	expectFiles(t, folders, map[string]string{staging("1"): "one\ntwo\n", staging("1") + ".prepared": ""})
	sink := open(t, folders)
	expect(t, []weir.Outcome{sink.Status(committable)}, weir.NotCommitted, "prepared")
	if dangling, err := sink.ListDangling(); !reflect.DeepEqual(dangling, []string{identity("1")}) {
		t.Error(dangling, err)
	}
	expect(t, sink.Commit(committable), weir.Committed, "")
	folders.Crash()
	expect(t, sink.Commit(committable), weir.AlreadyCommitted, "")
	if got := sink.Abort(identity("1")); got.Is != weir.WasCommitted {
		t.Error(got)
	}
	// A consumer may take the file, and a repeat still knows.
	folders.Grants().Folder("out").Remove("part-1-3-1")
	expect(t, sink.Commit(committable), weir.AlreadyCommitted, "")
	if err := errors.Join(sink.Forget(identity("1")), sink.Forget(identity("1"))); err != nil {
		t.Error(err)
	}
	expectFiles(t, folders, map[string]string{})
}

func TestNothingWrittenLeavesNothing(t *testing.T) {
	folders := weir.NewMemoryFolders("out")
	sink := open(t, folders)
	if err := errors.Join(sink.Begin(identity("1")), sink.Write()); err != nil {
		t.Error(err)
	}
	if committable, err := sink.Prepare("3-1", true); committable != nil || err != nil {
		t.Error(committable, err)
	}
	expectFiles(t, folders, map[string]string{})
}

func TestDamageIsLostAndLeftWhereItIs(t *testing.T) {
	folders := weir.NewMemoryFolders("out")
	unmarked, longer, second, gone := ready(t, folders, "1"), ready(t, folders, "2"), ready(t, folders, "3"), ready(t, folders, "4")
	sink, out := open(t, folders), folders.Grants().Folder("out")
	out.Remove(staging("1") + ".prepared")
	out.Append(staging("2"), []byte("more"))
	out.Append("part-1-3-3", []byte("somebody else's\n"))
	out.Remove(staging("4"))
	out.Remove(staging("4") + ".prepared")
	before := folders.Files("out")
	for why, committable := range map[string]weir.Committable{
		"has no marker any more": unmarked, "has not the 8 bytes": longer, "part-1-3-3 is there already": second, "neither": gone,
	} {
		expect(t, sink.Commit(committable), weir.Lost, why)
		expect(t, []weir.Outcome{sink.Status(committable)}, weir.Lost, why)
	}
	expectFiles(t, folders, before)
}

func TestAPowerLossBeforeAnyStepOfPrepareLosesOnlyWhatWasNotPrepared(t *testing.T) {
	for calls, finished := 0, false; !finished; calls++ {
		folders := weir.NewMemoryFolders("out")
		sink := open(t, folders)
		sink.Begin(identity("1"))
		sink.Write(line("one"))
		folders.FailAfter(calls)
		_, err := sink.Prepare("3-1", false)
		finished = err == nil
		folders.Crash()
		files := folders.Files("out")
		if _, marked := files[staging("1")+".prepared"]; marked && files[staging("1")] != "one\n" {
			t.Errorf("after %d calls a marker vouches for %q", calls, files)
		}
		for name := range files {
			if strings.HasPrefix(name, "part-") {
				t.Error("it is visible before the commit")
			}
		}
		fresh := open(t, folders)
		dangling, _ := fresh.ListDangling()
		for _, transaction := range dangling {
			if got := fresh.Abort(transaction); got.Is != weir.Aborted {
				t.Error(got)
			}
		}
		expectFiles(t, folders, map[string]string{})
	}
}

func TestAPowerLossBeforeAnyStepOfCommitIsMadeGoodByTheRepeat(t *testing.T) {
	for calls, finished := 0, false; !finished; calls++ {
		folders := weir.NewMemoryFolders("out")
		committable := ready(t, folders, "1")
		folders.FailAfter(calls)
		first := open(t, folders).Commit(committable)
		folders.Crash()
		second := open(t, folders).Commit(committable)
		if folders.Files("out")["part-1-3-1"] != "one\ntwo\n" {
			t.Errorf("after %d calls: %v %v", calls, first, second)
		}
		if finished = first[0].Is == weir.Committed; finished {
			expect(t, second, weir.AlreadyCommitted, "")
		} else {
			expect(t, first, weir.NotCommitted, "")
			expect(t, second, weir.Committed, "")
		}
	}
}

func TestAPowerLossBeforeAnyStepOfAbortNeverLooksCommitted(t *testing.T) {
	for calls, finished := 0, false; !finished; calls++ {
		folders := weir.NewMemoryFolders("out")
		committable := ready(t, folders, "1")
		folders.FailAfter(calls)
		finished = open(t, folders).Abort(identity("1")).Is == weir.Aborted
		folders.Crash()
		sink := open(t, folders)
		if got := sink.Status(committable); got.Is == weir.AlreadyCommitted {
			t.Errorf("after %d calls: %v", calls, got)
		}
		if got := sink.Abort(identity("1")); got.Is != weir.Aborted {
			t.Error(got)
		}
		expectFiles(t, folders, map[string]string{})
	}
}

func TestWhatCanNotBeRightIsRefused(t *testing.T) {
	folders := weir.NewMemoryFolders("out")
	if _, err := weir.OpenSinkHarness(halves, folders, "out-files", `{"path":"x"}`); err == nil {
		t.Error("a setting that nobody knows")
	}
	sink := open(t, folders)
	if sink.Begin("no-identity") == nil || sink.Begin("a.b.c.d.e") == nil {
		t.Error("that is no identity")
	}
	newer := ready(t, folders, "1")
	if sink.Begin(identity("1")) == nil {
		t.Error("an identity is never used twice")
	}
	if sink.Forget(identity("1")) == nil {
		t.Error("it is not committed")
	}
	newer.Version = 2
	expect(t, sink.Commit(newer), weir.Unknown, "version 2")
	sink.Begin(identity("2"))
	if err := sink.Write(weir.Emitted{Key: []byte("k")}); err == nil || !strings.Contains(err.Error(), "value is null") {
		t.Error(err)
	}
	sink.Write(line("one"))
	open(t, folders).Abort(identity("2"))
	if _, err := sink.Prepare("3-2", false); err == nil {
		t.Error("it was aborted meanwhile")
	}
	if open(t, weir.NewMemoryFolders()).Begin(identity("3")) == nil {
		t.Error("nothing is granted")
	}
}

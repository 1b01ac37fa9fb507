package main

import (
	"fmt"
	"slices"
	"strings"

	weir "github.com/weir-dataflow/weir/sdk/go"
)

// committer commits and aborts what any writer of this sink has staged, in whatever lineage. It looks at two names and renames one.
type committer struct {
	out  weir.Folder
	sink string
}

// found is what lies there of a transaction.
type found int

const (
	// foundPrepared: it can be committed.
	foundPrepared found = iota
	// foundStagedAlone: it was never prepared, or its abort has begun.
	foundStagedAlone
	// foundMarkerAlone: it is committed.
	foundMarkerAlone
	// foundNothing: it is not there.
	foundNothing
)

func (c *committer) Open(_, sink string, config []byte, grants weir.Grants) error {
	c.out, c.sink = grants.Folder(grant), sink
	return checkConfig(config)
}

func (c *committer) Commit(what weir.Committable) weir.Outcome {
	at, to, unreadable := namesOf(what)
	if unreadable != nil {
		return *unreadable
	}
	outcome, err := c.commit(at, to)
	if err != nil {
		return weir.Outcome{Is: weir.NotCommitted, Why: err.Error()}
	}
	return outcome
}

func (c *committer) Status(what weir.Committable) weir.Outcome {
	at, to, unreadable := namesOf(what)
	if unreadable != nil {
		return *unreadable
	}
	outcome, err := c.judge(at, to)
	if err != nil {
		return weir.Outcome{Is: weir.Unknown, Why: err.Error()}
	}
	return outcome
}

func (c *committer) Abort(transaction string) weir.AbortOutcome {
	at, err := stagedAs(transaction)
	if err == nil {
		var is weir.AbortKind
		if is, err = c.abort(at); err == nil {
			return weir.AbortOutcome{Is: is}
		}
	}
	return weir.AbortOutcome{Is: weir.NotAborted, Why: err.Error()}
}

func (c *committer) ListDangling() ([]string, error) {
	var dangling []string
	lineages, err := c.out.List(stagingFolder)
	if err != nil {
		return nil, weir.Retry(err.Error())
	}
	for _, lineage := range lineages {
		names, err := c.out.List(folderOf(lineage, c.sink))
		if err != nil {
			return nil, weir.Retry(err.Error())
		}
		for _, name := range names {
			dangling = append(dangling, strings.TrimSuffix(name, prepared))
		}
	}
	slices.Sort(dangling)
	return slices.Compact(dangling), nil
}

func (c *committer) Forget(transaction string) error {
	at, err := stagedAs(transaction)
	if err != nil {
		return err
	}
	is, err := c.look(at)
	switch {
	case err != nil:
		return weir.Retry(err.Error())
	case is == foundNothing:
		return nil
	case is != foundMarkerAlone:
		return fmt.Errorf("%s is to be forgotten, but it is not committed", at.file)
	}
	if _, err := c.out.Remove(at.marker); err != nil {
		return weir.Retry(err.Error())
	}
	if err := c.out.Sync(at.folder); err != nil {
		return weir.Retry(err.Error())
	}
	return nil
}

func (c *committer) look(at staged) (found, error) {
	// The staged file first: a rename between the two looks must not seem like nothing at all.
	file, err := c.out.Exists(at.file)
	if err != nil {
		return foundNothing, err
	}
	marker, err := c.out.Exists(at.marker)
	switch {
	case file && marker:
		return foundPrepared, err
	case file:
		return foundStagedAlone, err
	case marker:
		return foundMarkerAlone, err
	}
	return foundNothing, err
}

// judge says what would become of a commit; NotCommitted if it can be made.
func (c *committer) judge(at staged, to target) (weir.Outcome, error) {
	lost := func(format string, values ...any) (weir.Outcome, error) {
		return weir.Outcome{Is: weir.Lost, Why: fmt.Sprintf(format, values...)}, nil
	}
	is, err := c.look(at)
	if err != nil {
		return weir.Outcome{}, err
	}
	switch is {
	case foundMarkerAlone:
		return weir.Outcome{Is: weir.AlreadyCommitted}, nil
	case foundNothing:
		return lost("neither %s nor its marker is there: somebody removed them", at.file)
	case foundStagedAlone:
		return lost("%s has no marker any more: its abort was begun, or somebody removed it. The file is left where it is", at.file)
	}
	// The last byte is where it should be, and nothing after it.
	if last, err := c.out.Read(at.file, to.bytes-1, 2); err != nil {
		return weir.Outcome{}, err
	} else if len(last) != 1 {
		return lost("%s has not the %d bytes that were prepared; it is left where it is", at.file, to.bytes)
	}
	if there, err := c.out.Exists(to.name); err != nil {
		return weir.Outcome{}, err
	} else if there {
		return taken(at, to), nil
	}
	return weir.Outcome{Is: weir.NotCommitted, Why: "prepared, not committed yet"}, nil
}

func (c *committer) commit(at staged, to target) (weir.Outcome, error) {
	outcome, err := c.judge(at, to)
	if err != nil {
		return outcome, err
	}
	switch outcome.Is {
	case weir.NotCommitted:
		done, err := c.out.Rename(at.file, to.name)
		if err == nil && !done {
			return taken(at, to), nil
		}
		return weir.Outcome{Is: weir.Committed}, err
	case weir.AlreadyCommitted:
		// Who renamed it may have died before the folders were durable.
		if err := c.out.Sync(""); err != nil {
			return outcome, err
		}
		return outcome, c.out.Sync(at.folder)
	}
	return outcome, nil
}

// abort removes the marker first, and durably: alone it would say committed. Then the staged file, then the marker once more: a writer
// of an older generation may have made it meanwhile.
func (c *committer) abort(at staged) (weir.AbortKind, error) {
	is, err := c.look(at)
	if err != nil {
		return weir.NotAborted, err
	}
	switch is {
	case foundMarkerAlone:
		return weir.WasCommitted, nil
	case foundNothing:
		return weir.Aborted, nil
	case foundPrepared:
		if _, err := c.out.Remove(at.marker); err != nil {
			return weir.NotAborted, err
		}
		if err := c.out.Sync(at.folder); err != nil {
			return weir.NotAborted, err
		}
	}
	for _, name := range []string{at.file, at.marker} {
		if _, err := c.out.Remove(name); err != nil {
			return weir.NotAborted, err
		}
	}
	return weir.Aborted, c.out.Sync(at.folder)
}

// namesOf gives where a committable is staged, and what it becomes; an outcome if this build can't read it.
func namesOf(what weir.Committable) (staged, target, *weir.Outcome) {
	unknown := func(why string) *weir.Outcome { return &weir.Outcome{Is: weir.Unknown, Why: why} }
	if what.Version != version {
		return staged{}, target{}, unknown(fmt.Sprintf("%s has version %d, this build reads %d", what.ID, what.Version, version))
	}
	to, ok := decodeTarget(what.Bytes)
	if !ok {
		return staged{}, target{}, unknown(what.ID + ": its bytes name no file")
	}
	at, err := stagedAs(what.ID)
	if err != nil {
		return staged{}, target{}, unknown(err.Error())
	}
	return at, to, nil
}

func taken(at staged, to target) weir.Outcome {
	why := fmt.Sprintf("%s is there already and is another file; this transaction's records are kept in %s", to.name, at.file)
	return weir.Outcome{Is: weir.Lost, Why: why}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

const (
	// grant is the folder grant that the job must give.
	grant = "out"
	// version of a committable's bytes; see target.
	version = 1
	// stagingFolder is where everything lies that is not committed. Readers ignore names that begin with a dot.
	stagingFolder = ".weir-staging"
	// prepared is the end of a marker's name.
	prepared = ".prepared"
)

// checkConfig refuses any setting.
func checkConfig(config []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&struct{}{}); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// staged is where a transaction's files lie.
type staged struct {
	// The folder that holds the two, the staged file, and its marker.
	folder, file, marker string
	// Subtask of the writer.
	subtask uint32
}

// stagedAs reads a transaction's name, <lineage>.<generation>.<sink>.<subtask>.<number>.
func stagedAs(transaction string) (staged, error) {
	parts := strings.Split(transaction, ".")
	if len(parts) != 5 {
		return staged{}, fmt.Errorf("'%s' is no identity: it has %d parts, not five", transaction, len(parts))
	}
	subtask, err := strconv.ParseUint(parts[3], 10, 32)
	if err != nil {
		return staged{}, fmt.Errorf("'%s' is no identity: subtask '%s' is not a number", transaction, parts[3])
	}
	folder := folderOf(parts[0], parts[2])
	file := folder + "/" + transaction
	return staged{folder, file, file + prepared, uint32(subtask)}, nil
}

// folderOf is where the transactions of one lineage and sink lie.
func folderOf(lineage, sink string) string { return stagingFolder + "/" + lineage + "/" + sink }

// target is what a transaction becomes. As a committable's bytes: "<bytes> <name>", in ASCII.
type target struct {
	// Name of the committed file.
	name string
	// Its size.
	bytes uint64
}

func (t target) encode() []byte { return fmt.Appendf(nil, "%d %s", t.bytes, t.name) }

// decodeTarget reads a committable's bytes; false if they are no target.
func decodeTarget(encoded []byte) (target, bool) {
	size, name, _ := strings.Cut(string(encoded), " ")
	bytes, err := strconv.ParseUint(size, 10, 64)
	return target{name, bytes}, err == nil && bytes > 0 && strings.HasPrefix(name, "part-")
}

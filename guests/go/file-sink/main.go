// Writes each value and a newline to files that appear whole: the built-in file sink's rules, as a plugin. It needs the folder grant
// out, and takes no config. The same as guests/file-sink, down to the files and committables that it makes.
//
// What holds in the granted folder:
//   - part-<subtask>-<checkpoint> is a committed file: it appears by one rename that never replaces, and never changes;
//   - .weir-staging/<lineage>/<sink>/<identity> holds what a transaction has written. It is appended to until prepare;
//   - .weir-staging/<lineage>/<sink>/<identity>.prepared, an empty marker, is made durable by prepare, after the content of the
//     staged file. Hence: staged and marker = prepared; marker alone = committed (even if a consumer has taken the file); neither =
//     lost; staged alone = never prepared, or a half-done abort.
package main

import (
	weir "github.com/weir-dataflow/weir/sdk/go"
	_ "github.com/weir-dataflow/weir/sdk/go/sink"
)

func init() { weir.RegisterSink(&writer{}, &committer{}) }

func main() {}

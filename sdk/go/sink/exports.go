//go:build wasip1

package sink

import (
	"unsafe"

	"github.com/weir-dataflow/weir/sdk/go/internal/abi"
)

//go:wasmexport weir:plugin/sink-writer@1.0.0#describe
func describe() unsafe.Pointer { return abi.Sink.Describe() }

//go:wasmexport weir:plugin/sink-writer@1.0.0#open
func open(job unsafe.Pointer, jobLen uint32, name unsafe.Pointer, nameLen uint32, subtask, parallelism, attempt uint32,
	config unsafe.Pointer, configLen uint32) unsafe.Pointer {
	return abi.Sink.Open(abi.Text(job, jobLen), abi.Text(name, nameLen), subtask, parallelism, attempt, abi.Bytes(config, configLen))
}

//go:wasmexport weir:plugin/sink-writer@1.0.0#begin
func begin(transaction unsafe.Pointer, length uint32) unsafe.Pointer {
	return abi.Sink.Begin(abi.Text(transaction, length))
}

//go:wasmexport weir:plugin/sink-writer@1.0.0#write
func write(count uint32, data unsafe.Pointer, dataLen uint32, index unsafe.Pointer, indexLen uint32, times unsafe.Pointer,
	timesLen uint32, aux unsafe.Pointer, auxLen uint32) unsafe.Pointer {
	return abi.Sink.Write(abi.Batch{
		Count: count, Data: abi.Bytes(data, dataLen), Index: abi.Bytes(index, indexLen), Times: abi.Bytes(times, timesLen),
		Aux: abi.Bytes(aux, auxLen),
	})
}

//go:wasmexport weir:plugin/sink-writer@1.0.0#prepare
func prepare(checkpoint unsafe.Pointer, length, endOfInput uint32) unsafe.Pointer {
	return abi.Sink.Prepare(abi.Text(checkpoint, length), endOfInput != 0)
}

//go:wasmexport weir:plugin/sink-writer@1.0.0#close
func closeWriter() { abi.Sink.Close() }

//go:wasmexport weir:plugin/sink-committer@1.0.0#open
func openCommitter(job unsafe.Pointer, jobLen uint32, name unsafe.Pointer, nameLen uint32, config unsafe.Pointer,
	configLen uint32) unsafe.Pointer {
	return abi.Sink.OpenCommitter(abi.Text(job, jobLen), abi.Text(name, nameLen), abi.Bytes(config, configLen))
}

//go:wasmexport weir:plugin/sink-committer@1.0.0#commit
func commit(what unsafe.Pointer, count uint32) unsafe.Pointer {
	return abi.Sink.Commit(committables(what, count))
}

//go:wasmexport weir:plugin/sink-committer@1.0.0#status
func status(what unsafe.Pointer, count uint32) unsafe.Pointer {
	return abi.Sink.Status(committables(what, count))
}

//go:wasmexport weir:plugin/sink-committer@1.0.0#abort
func abort(what unsafe.Pointer, count uint32) unsafe.Pointer {
	return abi.Sink.Abort(texts(what, count))
}

//go:wasmexport weir:plugin/sink-committer@1.0.0#list-dangling
func listDangling() unsafe.Pointer { return abi.Sink.ListDangling() }

//go:wasmexport weir:plugin/sink-committer@1.0.0#forget
func forget(what unsafe.Pointer, count uint32) unsafe.Pointer {
	return abi.Sink.Forget(texts(what, count))
}

//go:wasmexport weir:plugin/sink-committer@1.0.0#close
func closeCommitter() { abi.Sink.CloseCommitter() }

// committables reads a list of them, each seven words.
func committables(at unsafe.Pointer, count uint32) []abi.Committable {
	words := abi.WordsAt(at, 7*count)
	what := make([]abi.Committable, count)
	for i := range what {
		at := 7 * i
		what[i] = abi.Committable{
			ID: string(words.List(at)), Checkpoint: string(words.List(at + 2)), Version: words.U32(at + 4), Bytes: words.List(at + 5),
		}
	}
	return what
}

func texts(at unsafe.Pointer, count uint32) []string {
	words := abi.WordsAt(at, 2*count)
	list := make([]string, count)
	for i := range list {
		list[i] = string(words.List(2 * i))
	}
	return list
}

//go:wasmexport cabi_post_weir:plugin/sink-writer@1.0.0#describe
func postDescribe(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-writer@1.0.0#open
func postOpen(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-writer@1.0.0#begin
func postBegin(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-writer@1.0.0#write
func postWrite(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-writer@1.0.0#prepare
func postPrepare(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-committer@1.0.0#open
func postOpenCommitter(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-committer@1.0.0#commit
func postCommit(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-committer@1.0.0#status
func postStatus(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-committer@1.0.0#abort
func postAbort(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-committer@1.0.0#list-dangling
func postListDangling(unsafe.Pointer) { abi.Release() }

//go:wasmexport cabi_post_weir:plugin/sink-committer@1.0.0#forget
func postForget(unsafe.Pointer) { abi.Release() }

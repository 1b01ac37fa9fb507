// Package sink makes a plugin export the two halves of a transactional sink: import it for its effect beside weir.RegisterSink.
//
//	import _ "github.com/weir-dataflow/weir/sdk/go/sink"
package sink

import "github.com/weir-dataflow/weir/sdk/go/internal/abi"

func init() { abi.HasSink = true }

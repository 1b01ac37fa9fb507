// Package endofinput makes a plugin export the contract's calls at the end of bounded input: import it for its effect beside an
// operator that implements weir.EndOperator, weir.KeyEndOperator or both. Of an operator with state the host then reads through
// all keys when the input ends.
//
//	import _ "github.com/weir-dataflow/weir/sdk/go/endofinput"
package endofinput

import "github.com/weir-dataflow/weir/sdk/go/internal/abi"

func init() { abi.HasEndOfInput = true }

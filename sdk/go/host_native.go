//go:build !wasip1

package weir

import (
	"fmt"
	"os"
)

func hostLog(level, message string) { fmt.Fprintf(os.Stderr, "%s: %s\n", level, message) }

package weir

import (
	"math"
	"strconv"
	"testing"
)

func TestNumbersAreWrittenAsStrconvDoes(t *testing.T) {
	numbers := []uint64{0, math.MaxUint64, math.MaxInt64, 1 << 63, math.MaxUint32, math.MaxUint32 + 1}
	for power := uint64(1); power < 1e19; power *= 10 {
		numbers = append(numbers, power-1, power, power+1, power*5)
	}
	for _, number := range numbers {
		if got := AppendUint([]byte("n"), number); string(got) != "n"+strconv.FormatUint(number, 10) {
			t.Errorf("%d: %s", number, got)
		}
		for _, signed := range []int64{int64(number), -int64(number)} {
			if got := AppendInt(nil, signed); string(got) != strconv.FormatInt(signed, 10) {
				t.Errorf("%d: %s", signed, got)
			}
		}
	}
}

package routing

import (
	"fmt"
	"testing"

	"billbridge/proxy/partner"
)

// A higher percentage moves no bill back, and about that percentage of all bills is drawn.
func TestRaisingThePercentageMovesNoBillBack(t *testing.T) {
	t.Parallel()
	const drawn = 10_000
	in := map[string]bool{}
	for percent := 0; percent <= 100; percent++ {
		n := 0
		for i := range drawn {
			name := fmt.Sprint("drawn-", i)
			now := inPercentage("partner", name, percent)
			if in[name] && !now {
				t.Fatalf("%s was in and is out at %d %%", name, percent)
			}
			in[name] = now
			if now {
				n++
			}
		}
		if want := drawn * percent / 100; n < want-200 || n > want+200 || percent%100 == 0 && n != want {
			t.Errorf("%d of %d at %d %%", n, drawn, percent)
		}
	}
}

// The hash depends on each part.
func TestPercentageDependsOnAllItsParts(t *testing.T) {
	t.Parallel()
	parts := [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}}
	alike := map[string]bool{}
	for _, p := range parts {
		text := ""
		for percent := range 100 {
			text += fmt.Sprint(inPercentage(partner.ID(p[0]), p[1], percent))
		}
		alike[text] = true
	}
	if len(alike) < len(parts)-1 { // two of them may have the same percentage
		t.Errorf("only %d of %d differ", len(alike), len(parts))
	}
}

func TestStages(t *testing.T) {
	t.Parallel()
	for i, s := range Stages {
		for j, other := range Stages {
			if s.Later(other) != (i > j) {
				t.Errorf("%s after %s: %v", s, other, s.Later(other))
			}
		}
	}
}

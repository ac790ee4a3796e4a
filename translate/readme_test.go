package translate_test

import (
	"os"
	"strings"
	"testing"
)

// The overlay and the messages in README.md are those of a golden file, which is tested in both directions.
func TestReadmeShowsTheGoldenFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	must(t, err)
	fence := func(language string) string {
		_, block, _ := strings.Cut(string(data), "```"+language+"\n")
		block, _, _ = strings.Cut(block, "```")
		return block
	}
	g := readGolden(t)["testdata/overlay/readme.yaml"]
	if shown := fence("yaml"); strings.TrimSpace(shown) != strings.TrimSpace(g.Overlay) {
		t.Errorf("README.md shows\n%s\nand testdata/overlay/readme.yaml tests\n%s", shown, g.Overlay)
	}
	var want []string
	for _, p := range []*pair{g.Requests[0], g.Replies[0]} {
		want = append(want, p.In, p.Out)
	}
	lines := strings.Split(strings.TrimSpace(fence("text")), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d messages, want %d", len(lines), len(want))
	}
	for i, line := range lines {
		if shown, _, _ := strings.Cut(line, "  "); shown != want[i] {
			t.Errorf("README.md shows %s, the golden file %s", shown, want[i])
		}
	}
}

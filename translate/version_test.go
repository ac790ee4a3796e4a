package translate_test

import "testing"

// Whatever changes a message, or what it says, makes a version of its own: what was counted before does not count. What
// changes none does not.
func TestVersion(t *testing.T) {
	t.Parallel()
	type row struct {
		Name, Overlay string
		Same          bool
	}
	const table = "the table"
	versions := map[string]string{shipped().Version: table}
	for _, row := range cases[row](t, "version") {
		version := overlaid(t, row.Overlay).Version
		if known := versions[version]; row.Same != (known == table) || known != "" && known != table {
			t.Errorf("%s: the version is that of %q", row.Name, known)
		}
		if versions[version] == "" {
			versions[version] = row.Name
		}
	}
}

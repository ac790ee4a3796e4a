package translate

import (
	"regexp"
	"slices"
	"strings"
)

// ReportPaths lists the paths that a [Report] of one message can contain, besides fields that no row names. The table
// fixes them, so a metric can have one series for each.
type ReportPaths struct {
	Dropped    []string
	Mismatched []string
}

// ReportPaths returns the paths in reports of requests and of replies.
func (t *Translation) ReportPaths() (request, reply ReportPaths) {
	return t.request.reportPaths(), t.reply.reportPaths()
}

// ReportPaths returns the paths in reports of callbacks from one form to the other.
func (c *Callback) ReportPaths(from, to Form) ReportPaths {
	return c.plan(from, to).reportPaths()
}

func (p *plan) reportPaths() (paths ReportPaths) {
	lenient := p.message != Request
	for _, f := range p.fields {
		if f.class == Lossy && (lenient || f.loss == "drop") || f.class == Exact && f.Otherwise == "drop" {
			paths.Dropped = append(paths.Dropped, f.source)
		}
		if f.each != nil {
			items := f.each.reportPaths()
			paths.Dropped = append(paths.Dropped, below(f, items.Dropped)...)
			paths.Mismatched = append(paths.Mismatched, below(f, append(items.Mismatched, itself))...)
		}
		counted := slices.Contains([]Class{Exact, Echoed}, f.class)
		if f.repeats && f.source != "" || lenient && counted {
			paths.Mismatched = append(paths.Mismatched, f.report)
		}
	}
	if lenient && p.from != p.to {
		paths.Mismatched = p.root.appendObjectPaths(paths.Mismatched)
	}
	if p.message == Reply && !p.item && p.from != p.to {
		paths.Mismatched = append(paths.Mismatched, p.fromForm.Text)
		if p.toForm.OtherCode != "" {
			paths.Mismatched = append(paths.Mismatched, p.fromForm.Code)
		}
	}
	slices.Sort(paths.Mismatched)
	paths.Mismatched = slices.Compact(paths.Mismatched) // the same path can be in both forms
	return paths
}

// below returns the paths of fields of an item, in the list f: with [] for any item.
func below(f *mapping, paths []string) (whole []string) {
	for _, path := range paths {
		whole = append(whole, itemPath(f.report+itself, path))
	}
	return whole
}

// PathInTable returns a path of a report as [ReportPaths] has it: without the numbers of items.
func PathInTable(path string) string {
	if strings.IndexByte(path, '[') < 0 {
		return path // mostly
	}
	return itemNumber.ReplaceAllLiteralString(path, itself)
}

var itemNumber = regexp.MustCompile(`\[(?:0|[1-9][0-9]{0,4})\]`)

// appendObjectPaths appends the paths of the objects inside the object n.
func (n *node) appendObjectPaths(paths []string) []string {
	for _, e := range n.names {
		if e.node != nil {
			paths = e.node.appendObjectPaths(append(paths, joinPath(n.path, e.name())))
		}
	}
	return paths
}

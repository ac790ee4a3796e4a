package translate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// operationKeys are the keys of an operation.
type operationKeys struct {
	Paths          byForm[string]    `by:"form"`
	Effect         Effect            `is:"read|write" must:"be"`
	Creates        string            `is:"a role"`
	Sets           map[string]string `is:"a role"`
	Bare           string            `is:"a form"`
	Status         byForm[int]       `is:"200..203"` // of a success, with a body
	Result         string            `is:"list"`
	Hash           *yaml.Node        // what is hashed
	Request, Reply *yaml.Node        `must:"be"`
}

func (s *source) readOperation(name, n *yaml.Node) {
	var k operationKeys
	s.decode(n, "an operation", &k)
	o := &Operation{
		Name: s.fieldPath(name, "a name"), Effect: k.Effect, Created: k.Creates, paths: k.Paths, sets: k.Sets,
		status: k.Status, list: k.Result != "",
		rows: map[Message][]*row{}, table: s.table,
	}
	s.table.Operations = append(s.table.Operations, o)
	if n.Kind != yaml.MappingNode {
		return
	}
	for f, path := range o.paths {
		at, bare := child(n, s.forms[f]), s.table.formIndex(Form(k.Bare))
		o.bare = append(o.bare, f == bare || s.table.forms[f].like == bare)
		if at != nil && (path != "" && path[0] != '/' || strings.ContainsAny(path, "{}:*?#% ")) {
			s.errorf(at, "a path must start with a slash and have no pattern and no query, but is %q", path)
		}
	}
	before := len(s.problems)
	s.readRows(o, Request, k.Request)
	s.readRows(o, Reply, k.Reply)
	if len(s.problems) == before {
		s.readHash(o, k.Hash)
	}
	// An address that nothing was created with is notified of what may come again.
	registers := func(r *row) bool { return r.Role.Same == "never" }
	o.StateReturns = o.Created == "" && slices.ContainsFunc(o.rows[Request], registers)
	s.checkOperation(o, name, n)
}

// checkOperation checks how the keys of an operation go together.
func (s *source) checkOperation(o *Operation, name, n *yaml.Node) {
	bare := slices.Index(o.bare, true)
	showsSuccess := func(r *row) bool { // a secret can be missing
		return r.Path[bare] != "" && (r.must && !r.Role.Secret || r.Means != nil)
	}
	for _, rule := range []struct {
		is   bool
		at   *yaml.Node
		text string
	}{
		{o.paths[0]+o.paths[1] == "", name, "the path is missing; give it one form, or both"},
		{
			o.list && o.paths[0] != "" && o.paths[1] != "", name,
			"result: list is not translated, so only one form can have a path",
		},
		{
			o.Created != "" && (o.Effect != Write || !o.HasRole(Request, o.Created)), child(n, "creates"),
			"creates needs effect: write and a row of the request with role: " + o.Created,
		},
		{len(o.sets) > 0 && o.Effect != Write, child(n, "sets"), "sets needs effect: write"},
		{
			bare >= 0 && s.table.forms[max(bare, 0)].Result != "", name,
			"bare cannot be a form that has its results in an object",
		},
		{
			bare >= 0 && !slices.ContainsFunc(o.rows[Reply], showsSuccess), name,
			"bare needs a row of its form in the reply whose role has same: must, or with means, to recognise " +
				"a success",
		},
	} {
		if rule.is {
			s.errorf(rule.at, "%s: %s", o.Name, rule.text)
		}
	}
}

// roleName returns the name of a declared role, or "".
func (s *nodes) roleName(n *yaml.Node, what string) string {
	name := s.str(n, what)
	if roles := s.table.roles; roles[name] == nil && name != "" {
		known := slices.Sorted(maps.Keys(roles))
		list := cmp.Or(strings.Join(known, ", "), "none")
		s.errorf(n, "%s: the table has no role %q; its roles are %s%s", what, name, list, DidYouMean(name, known))
		return ""
	}
	return name
}

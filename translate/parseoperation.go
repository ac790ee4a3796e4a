package translate

import (
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
	Status         byForm[int]       // of a success, with a body
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
	if o.list && o.paths[0] != "" && o.paths[1] != "" {
		s.errorf(name, "%s: result: list is not translated, so only one form can have a path", o.Name)
	}
	if o.Created != "" && (o.Effect != Write || !o.HasRole(Request, o.Created)) {
		s.errorf(child(n, "creates"), "%s: creates needs effect: write and a row of the request with role: %s",
			o.Name, o.Created)
	}
	if bare >= 0 && !slices.ContainsFunc(o.rows[Reply], showsSuccess) {
		s.errorf(name, "%s: bare needs a row of its form in the reply whose role has same: must, or with means, to "+
			"recognise a success", o.Name)
	}
}

// roleName returns the name of a declared role, or "".
func (s *nodes) roleName(n *yaml.Node, what string) string {
	name := s.str(n, what)
	if name != "" && s.table.roles[name] == nil {
		s.errorf(n, "%s: the table has no role %q%s", what, name, DidYouMean(name, slices.Collect(maps.Keys(s.table.roles))))
		return ""
	}
	return name
}

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

// bareForms returns a form and those that are like it.
func (s *source) bareForms(bare int) byForm[bool] {
	list := make(byForm[bool], len(s.table.forms))
	for f, form := range s.table.forms {
		list[f] = bare >= 0 && (f == bare || form.like == bare)
	}
	return list
}

func (s *source) readOperation(name, n *yaml.Node) {
	var k operationKeys
	s.decode(n, "an operation", &k)
	o := &Operation{
		Name: s.fieldPath(name, "a name"), Effect: k.Effect, Created: k.Creates, paths: k.Paths, bare: s.bareForms(s.table.formIndex(Form(k.Bare))), sets: k.Sets, status: k.Status,
		list: k.Result != "", rows: map[Message][]*row{}, table: s.table,
	}
	s.table.operations = append(s.table.operations, o)
	if n.Kind != yaml.MappingNode {
		return
	}
	for f, path := range o.paths {
		at := child(n, s.forms[f])
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
	o.StateReturns = o.Created == "" && slices.ContainsFunc(o.rows[Request], func(r *row) bool { return r.Role.Replaced })
	s.checkOperation(o, name, n)
}

// checkOperation checks how the keys of an operation go together.
func (s *source) checkOperation(o *Operation, name, n *yaml.Node) {
	bare := slices.Index(o.bare, true)
	if o.paths[0] == "" && o.paths[1] == "" {
		s.errorf(name, "%s: the path is missing; give it one in %s or in both", o.Name, strings.Join(s.forms[:2], ", in "))
	}
	if o.list && o.paths[0] != "" && o.paths[1] != "" {
		s.errorf(name, "%s: result: list cannot be translated, "+
			"so the operation can have a path in one form only", o.Name)
	}
	if o.Created != "" && (o.Effect != Write || !o.HasRole(Request, o.Created)) {
		s.errorf(child(n, "creates"), "creates: %s needs effect: write and a row of the request with role: %s",
			o.Name, o.Created)
	}
	if len(o.sets) > 0 && o.Effect != Write {
		s.errorf(child(n, "sets"), "sets: %s needs effect: write", o.Name)
	}
	if bare < 0 {
		return
	}
	if result := s.table.forms[bare].Result; result != "" {
		s.errorf(name, "%s: bare cannot be %s, which has its results under %q", o.Name, s.forms[bare], result)
	}
	showsSuccess := func(r *row) bool { // a secret can be missing
		return r.Path[bare] != "" && (r.must && !r.Role.Secret || r.Means != nil)
	}
	if !slices.ContainsFunc(o.rows[Reply], showsSuccess) {
		s.errorf(name, "%s: bare needs a row of %s in the reply whose role has same: must, or with means, "+
			"to recognise a success", o.Name, s.forms[bare])
	}
}

// roleName returns the name of a declared role, or "".
func (s *source) roleName(n *yaml.Node, what string) string {
	name := s.str(n, what)
	if roles := s.table.roles; roles[name] == nil && name != "" {
		known := slices.Sorted(maps.Keys(roles))
		list := cmp.Or(strings.Join(known, ", "), "none")
		s.errorf(n, "%s: the table has no role %q; its roles are %s%s", what, name, list, DidYouMean(name, known))
		return ""
	}
	return name
}

package translate

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/tidwall/gjson"
)

// CompareScan reads a message twice: by the scanner, and with package jsontext for the check and gjson for the values. It reports
// whether the message is valid, and returns an error if the two differ in anything: the fault, the values or the report.
func CompareScan(t *Translation, m Message, doc []byte) (valid bool, _ error) {
	p := t.request
	if m == Reply {
		p = t.reply
	}
	got, want := &Call{translation: t}, &Call{translation: t}
	slots, wantSlots := make([]value, p.size), make([]value, p.size)
	isObject, found := got.scan(p, doc, slots)
	if found != nil {
		got.lists = nil
	}
	wantFault, parsed := checkJSON(doc, p.table.depth), gjson.ParseBytes(doc)
	if wantFault == nil {
		want.walk(p, p.root, parsed, wantSlots)
	} else {
		got.rejected, got.refusal = nil, nil // as parse does
	}
	switch {
	case !reflect.DeepEqual(found, wantFault):
		return false, fmt.Errorf("%q has the fault %+v, want %+v", doc, found, wantFault)
	case isObject != (wantFault == nil && parsed.IsObject()):
		return false, fmt.Errorf("%q is an object: %v", doc, isObject)
	case !reflect.DeepEqual(got.lists, want.lists):
		return false, fmt.Errorf("%q has the lists\n%v, want\n%v", doc, got.lists, want.lists)
	case !slices.Equal(slots, wantSlots):
		return false, fmt.Errorf("%q is read as\n%v, want\n%v", doc, slots, wantSlots)
	case fmt.Sprint(got.passed) != fmt.Sprint(want.passed) || fmt.Sprint(got.Report) != fmt.Sprint(want.Report):
		return false, fmt.Errorf("%q has the unknown fields and the report\n%v %+v, want\n%v %+v", doc, got.passed, got.Report, want.passed, want.Report)
	case !reflect.DeepEqual([]*Refusal{got.rejected, got.refusal}, []*Refusal{want.rejected, want.refusal}):
		return false, fmt.Errorf("%q is refused with %v, %v, want %v, %v", doc, got.rejected, got.refusal, want.rejected, want.refusal)
	}
	return found == nil, nil
}

// walk puts the values of an object that was checked into the slots, as the scanner does.
func (c *Call) walk(p *plan, n *node, object gjson.Result, slots []value) {
	if !object.IsObject() {
		return
	}
	next := 0
	object.ForEach(func(key, v gjson.Result) bool {
		e := n.find(key.Str, &next)
		switch {
		case e == nil && c.rejectLike(p, n, key.Str, valueOf(v)):
		case e == nil:
			c.handleUnknown(p, n, key.Str, key.Raw, valueOf(v), slots)
		case e.node != nil && v.IsObject():
			slots[e.slot].kind = composite
			c.walk(p, e.node, v, slots)
		default:
			slots[e.slot] = valueOf(v)
			if f := p.field(e); f != nil && f.each != nil && v.IsArray() {
				c.walkItems(f, v, &slots[e.slot])
				return true
			}
			if e.node != nil || v.IsObject() || v.IsArray() {
				c.checkKind(p, n, e, slots[e.slot])
			}
		}
		return true
	})
}

// walkItems is walk for the items of a list.
func (c *Call) walkItems(f *mapping, array gjson.Result, v *value) {
	var list []value
	p := f.each
	c.within = append(c.within, step{list: f})
	for i, item := range array.Array() {
		c.within[len(c.within)-1].index = i
		slots := make([]value, p.size)
		switch {
		case p.root.plain:
			if slots[0] = valueOf(item); item.IsObject() || item.IsArray() {
				c.checkKind(p, p.root, &p.root.names[0], slots[0])
			}
		case item.IsObject():
			slots[p.root.slot].kind = composite
			c.walk(p, p.root, item, slots)
		default:
			slots[p.root.slot] = valueOf(item)
			c.checkKind(p, p.root, &entry{slot: p.root.slot, node: p.root}, slots[p.root.slot])
		}
		list = append(list, slots...)
	}
	c.within = c.within[:len(c.within)-1]
	c.lists = append(c.lists, list)
	v.ref = uint32(len(c.lists))
}

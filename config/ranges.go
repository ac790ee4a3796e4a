package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// noMaximum is the largest value of a range without a maximum.
const noMaximum = int64(^uint64(0) >> 1)

// rangeOf returns the smallest and the largest value of a field with a tag such as range:"1,1000" or range:"1,". ok is false without a tag.
func rangeOf(field reflect.StructField) (least, most int64, ok bool) {
	from, to, ok := strings.Cut(field.Tag.Get("range"), ",")
	if !ok {
		return 0, 0, false
	}
	least, err := strconv.ParseInt(from, 10, 64)
	if most = noMaximum; err == nil && to != "" {
		most, err = strconv.ParseInt(to, 10, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("the range of %s: %v", field.Name, err))
	}
	return least, most, true
}

// checkRanges checks the numbers of a section that have a range. The schema has the same ranges.
func (s *source) checkRanges(section reflect.Value, keys ...string) {
	if upstreams, ok := section.Interface().(Upstreams); ok {
		for i := range upstreams {
			s.checkRanges(section.Index(i), append(keys, upstreams[i].Name)...)
		}
		return
	}
	if section.Kind() == reflect.Pointer && !section.IsNil() {
		section = section.Elem()
	}
	if section.Kind() != reflect.Struct {
		return
	}
	for i := range section.NumField() {
		field := section.Type().Field(i)
		key := field.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		at := append(keys[:len(keys):len(keys)], key)
		least, most, ok := rangeOf(field)
		switch n := section.Field(i); {
		case !ok:
			s.checkRanges(n, at...)
		case most == noMaximum && n.Int() < least:
			s.addProblem(fmt.Sprintf("must be at least %d, but is %d", least, n.Int()), at...)
		case n.Int() < least || n.Int() > most:
			s.addProblem(fmt.Sprintf("must be from %d to %d, but is %d", least, most, n.Int()), at...)
		}
	}
}

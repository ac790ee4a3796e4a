package config

import "reflect"

// NeedsRestart is the first key or section in which next differs from c and that a running gateway cannot change, ""
// if there is none. README.md has the same in its column "changed by".
func (c *Config) NeedsRestart(next *Config) string {
	return fixedKey(reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem())
}

// fixedKey is NeedsRestart for a section. A section that can be missing is fixed if it cannot be added or removed.
func fixedKey(was, is reflect.Value) string {
	for _, f := range keys(was.Type()) {
		key, fixed := f.Tag.Get("yaml"), isTagged(f.Tag, "restart")
		a, b := was.FieldByIndex(f.Index), is.FieldByIndex(f.Index)
		if a.Kind() == reflect.Pointer {
			if fixed && a.IsNil() != b.IsNil() {
				return key
			}
			fixed, a, b = false, orZero(a), orZero(b)
		}
		if fixed && !reflect.DeepEqual(a.Interface(), b.Interface()) {
			return key
		}
		if a.Kind() == reflect.Struct {
			if inner := fixedKey(a, b); inner != "" {
				return key + "." + inner
			}
		}
	}
	return ""
}

// orZero returns what a pointer points to, or the zero value.
func orZero(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

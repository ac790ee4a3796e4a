package config

import _ "embed"

// schema is written by the tests, from the types that Load decodes into, README.md and testdata/schema.yaml:
//
//	go test ./config -run TestSchemaFile -update
//
//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (draft 2020-12) of the config, for editors. It accepts every config that Load accepts,
// except booleans such as yes and on. It does not check rules for several keys, files, the environment, and the bounds
// of times and sizes.
func Schema() ([]byte, error) { return schema, nil }

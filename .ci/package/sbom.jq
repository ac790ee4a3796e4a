# CycloneDX of a binary, from the build information that Go wrote into it (go version -m -json).
def purl: "pkg:golang/\(.Path)@\(.Version)";
def library: {type: "library", name: .Path, version: .Version, purl: purl, "bom-ref": purl, scope: "required"};
(.GoVersion | ltrimstr("go")) as $go
| {Path: "std", Version: $go} as $std
| [(.Deps[] | .Replace // .), $std] as $all
| {
    bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
    metadata: {
      timestamp: $time,
      component: {
        type: "application", name: "billbridge", version: $version, "bom-ref": "billbridge",
        hashes: [{alg: "SHA-256", content: $sum}],
        licenses: [{license: {id: "Apache-2.0"}}],
        properties: [{name: "commit", value: $commit}, {name: "target", value: $target}]
      }
    },
    components: ($all | map(library)),
    dependencies: [{ref: "billbridge", dependsOn: ($all | map(purl))}]
  }

package evidence_test

import (
	"crypto/sha256"
	"fmt"

	"billbridge/config"
)

const partner = "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3a94a8fe5ccb19ba61c4c0873"

func hash(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

var config120 = config.Comparing{Rate: 1, InFlight: 1000, Bytes: 64 << 20}

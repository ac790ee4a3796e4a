package sandbox

import "testing"

// Without a connection: where the guard fails, nothing is called.
func TestAddressesOfASharedSandbox(t *testing.T) {
	t.Parallel()
	s := New(Options{Shared: true})
	defer func() { _ = s.Close() }()
	for _, address := range []string{
		"10.0.0.1:80", "192.168.0.1:443", "169.254.169.254:80", "168.63.129.16:80", "0.0.0.0:80", "100.64.0.1:80", "[::1]:80", "[fd00::1]:80",
		"[fe80::1]:80", "[2a00:1450::5efe:a00:1]:80", "[64:ff9b::7f00:1]:80", "[::ffff:127.0.0.1]:80",
	} {
		if s.mayDial(networkOf(address), address, nil) == nil {
			t.Errorf("%s may be called", address)
		}
	}
	for _, address := range []string{"8.8.8.8:80", "8.8.8.8:8443", "[2a00:1450::1]:443"} {
		if err := s.mayDial(networkOf(address), address, nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func networkOf(address string) string {
	if address[0] == '[' {
		return "tcp6"
	}
	return "tcp4"
}

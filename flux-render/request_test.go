package main

import (
	"errors"
	"strings"
	"testing"
)

func TestBadRequests(t *testing.T) {
	for content, reason := range map[string]string{
		``:                                  "EOF",
		`[]`:                                "cannot unmarshal array",
		`{"root":"checkout"}`:               "root is not an absolute path",
		`{"root":"/a","unknown":1}`:         `unknown field "unknown"`,
		`{"root":"/a"}{}`:                   "something follows",
		`{"root":"/a","kustomizations":{}}`: "cannot unmarshal object",
	} {
		_, err := readRequest(strings.NewReader(content))
		var bad *requestError
		if !errors.As(err, &bad) || !strings.Contains(bad.Error(), reason) || strings.Contains(bad.Error(), "\n") {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestAnswerStaysWithinItsLimit(t *testing.T) {
	limited := newAnswer(60)
	for range 2 {
		if err := limited.add(nil, []string{"a.yaml", "b.yaml"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(limited.results) != 2 || !strings.Contains(string(limited.results[1]), "larger than") {
		t.Errorf("%s", limited.results)
	}
}

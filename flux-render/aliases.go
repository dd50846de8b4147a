package main

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds what the aliases of one file expand to; without aliases, a file of 10 MB has about as many.
const maxNodes = 1_000_000

// refuseBomb names a file whose aliases expand to more than memory holds. kustomize copies what they stand for.
func refuseBomb(name string, content []byte) error {
	if !bytes.Contains(content, []byte("&")) || !bytes.Contains(content, []byte("*")) {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			return nil // it ends here, or kustomize says what is wrong with it
		}
		if sizes := (sizes{}); sizes.of(&document) > maxNodes {
			return fmt.Errorf("%s: its YAML aliases expand to more than %d values", name, maxNodes)
		}
	}
}

// sizes holds the expanded size of each node that was visited. It is excessive while a node is being visited: then the
// node contains itself.
type sizes map[*yaml.Node]int

func (s sizes) of(node *yaml.Node) int {
	if size, known := s[node]; known {
		return size
	}
	s[node] = maxNodes + 1
	size := 1
	if node.Alias != nil {
		size += s.of(node.Alias)
	}
	for _, child := range node.Content {
		size = min(size+s.of(child), maxNodes+1)
	}
	s[node] = size
	return size
}

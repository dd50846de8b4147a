package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxAnswerBytes bounds all objects of an answer together.
const maxAnswerBytes = 32 << 20

// answer collects the results in the order of the request.
type answer struct {
	results []json.RawMessage
	left    int
}

type rendered struct {
	Objects []*unstructured.Unstructured `json:"objects"`
	Files   []string                     `json:"files"`
}

type failure struct {
	Error string `json:"error"`
}

func newAnswer(maxBytes int) *answer {
	return &answer{results: []json.RawMessage{}, left: maxBytes}
}

func (a *answer) add(objects []*unstructured.Unstructured, files []string) error {
	return a.addBounded(rendered{Objects: objects, Files: files}, "Kustomizations")
}

func (a *answer) addRelease(result any) error {
	return a.addBounded(result, "HelmReleases")
}

func (a *answer) addBounded(value any, what string) error {
	result, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(result) > a.left {
		a.addError(fmt.Errorf("the objects of all %s together are larger than %d MiB, which is the limit of a preview", what, maxAnswerBytes>>20))
		return nil
	}
	a.left -= len(result)
	a.results = append(a.results, result)
	return nil
}

func (a *answer) addError(err error) {
	// A struct with one string can always be encoded.
	result, _ := json.Marshal(failure{Error: toWords(err)})
	a.results = append(a.results, result)
}

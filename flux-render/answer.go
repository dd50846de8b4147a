package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxAnswerBytes bounds the objects of all Kustomizations together.
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
	result, err := json.Marshal(rendered{Objects: objects, Files: files})
	if err != nil {
		return err
	}
	if len(result) > a.left {
		a.addError(fmt.Errorf("the objects of all Kustomizations together are larger than %d MiB, which is the limit of a preview", maxAnswerBytes>>20))
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

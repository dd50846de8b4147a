package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestRefuseBomb(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 8; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for content, refused := range map[string]bool{
		"a: &x {b: c}\nd: *x\n":               false,
		"#!/bin/sh\nsleep 1 & rm *\n":         false,
		bomb:                                  true,
		"---\na: 1\n---\n" + bomb:             true,
		"a: &x\n  b: *x\n":                    true,
		"a: &x {b: 1}\nc: &y {<<: *x}\nd: *y": false,
	} {
		if err := refuseBomb("f.yaml", []byte(content)); (err != nil) != refused {
			t.Errorf("%.40q: %v", content, err)
		}
	}
}

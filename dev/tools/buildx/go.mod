module towline.invalid/dev/tools/buildx

go 1.26.0

require github.com/docker/buildx v0.30.1

exclude github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc
exclude github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2

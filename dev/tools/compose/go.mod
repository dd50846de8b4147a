module towline.invalid/dev/tools/compose

go 1.26.0

require github.com/docker/compose/v2 v2.40.3

exclude github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc
exclude github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2

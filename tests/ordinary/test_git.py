"""Git as people and agents use it, in a repository, a linked worktree and a submodule (BND-11, QLT-1)."""

from __future__ import annotations

import pytest
from tests.ordinary.kit import Case, Ground, cases

pytestmark = pytest.mark.clause("BND-11", "QLT-1")

ORIGIN = """
git init -q --bare origin.git
echo /origin.git >>.git/info/exclude
git remote add origin ./origin.git
git push -qu origin main
git switch -qc feature; echo f >feature.txt; git add .; git commit -qm Feature; git push -qu origin feature
git switch -q main; git branch -qD feature
"""

WORK = {
    "commit_amend_and_sign_off": Case(
        """
            echo x >new.txt
            git add new.txt
            git commit -qsm First
            git commit -q --amend -m Better --signoff
            git log -1 --format=%B
            git commit -q --allow-empty -F - <<<'From stdin'
            git log --oneline | wc -l
        """,
        says=["Better", "Signed-off-by: A Person <person@example.invalid>", "3"],
        leaves=["new.txt"],
    ),
    "branch_switch_merge_rebase": Case(
        """
            git switch -qc topic
            echo t >t.txt
            git add .
            git commit -qm Topic
            git switch -q -
            echo m >m.txt
            git add .
            git commit -qm Main
            git merge -q --no-ff -m Merged topic
            git switch -q topic
            git rebase -q @{-1}
            git checkout -q -b again
            git branch -f other HEAD~1
            git branch -D other
            git merge --ff-only -q topic
            git log --graph --oneline
        """,
        says=["Merged"],
        leaves=["t.txt", "m.txt"],
    ),
    "conflicts_are_resolved": Case(
        """
            git switch -qc left
            echo l >file.txt
            git commit -qam Left
            git switch -q -
            echo r >file.txt
            git commit -qam Right
            git merge left && exit 1
            git status --short
            git checkout --ours file.txt
            git add file.txt
            git commit -qm Resolved
            git reset -q --hard HEAD~1
            git rebase left && exit 1
            git rebase --abort
            git cherry-pick left && exit 1
            echo both >file.txt
            git add .
            git cherry-pick --continue
            cat file.txt
        """,
        says=["UU file.txt", "both"],
    ),
    "stash_restore_reset_revert": Case(
        """
            echo dirty >>file.txt
            git stash -q
            git stash list
            git stash pop -q
            git restore --staged --worktree file.txt
            echo u >u.txt
            git stash -qu
            git stash apply -q
            git stash drop -q
            git add u.txt
            git restore --staged u.txt
            git clean -fdq
            echo y >>file.txt
            git commit -qam Y
            git revert --no-edit HEAD
            git reset -q --soft HEAD~2
            git reset -q --hard
            cat file.txt
        """,
        says=["stash@{0}", "one"],
    ),
    "tags_notes_and_looking": Case(
        """
            git tag v1
            git tag -a v2 -m Two
            git tag -d v1
            git describe
            git notes add -m note
            git log --notes -1
            git blame file.txt
            git log --stat -p --follow file.txt
            git show HEAD:file.txt
            git diff HEAD --stat
            git grep -n two
            git shortlog -sn HEAD
            git rev-list --count HEAD
            git ls-files -s
            git cat-file -p HEAD
            git config user.name
            git config --list --show-origin >/dev/null
            git reflog
            git status -sb
            git name-rev HEAD
        """,
        says=["v2", "note", "A Person", "file.txt:2:two", "A Person"],
    ),
    "bisect": Case(
        """
            for n in 1 2 3 4 5 6; do echo $n >n.txt; git add .; git commit -qm $n; done
            git bisect start HEAD HEAD~5
            git bisect run sh -c 'test $(cat n.txt) -lt 4'
            git bisect reset
            git rebase -q -i HEAD~2
            git commit -q --fixup HEAD~1 --allow-empty
            git log -1 --format=%s
        """,
        says=["is the first bad commit", "fixup!"],
        leaves=["n.txt"],
    ),
    "patches_bundles_archives": Case(
        """
            echo p >p.txt
            git add .
            git commit -qm Patch
            git format-patch -q -1 -o out
            git reset -q --hard HEAD~1
            git am -q out/*.patch
            git reset -q --hard HEAD~1
            git apply --index out/*.patch
            git commit -qm Again
            git bundle create -q out/all.bundle HEAD
            git bundle verify -q out/all.bundle
            git archive HEAD | tar t
            printf 'y\\n' | { echo more >>file.txt; git add -p; } >/dev/null
            git diff --cached --stat
            git commit -qm Piece
            git worktree list | wc -l
        """,
        says=["file.txt", "1 file changed"],
        leaves=["p.txt", "out"],
    ),
    "names_of_any_bytes": Case(
        """
            printf x >$'\\xff\\xfe'
            printf x >$'new\\nline'
            printf x >'sp ace'
            printf x >-dash
            printf x >$'caf\\u00e9'
            git add -A
            git commit -qm Odd
            git mv -- -dash plain
            git commit -qm Plain
            git ls-files -z | wc -c
            git status -s
        """,
        leaves=["*"],
    ),
}
"""Works in any kind of checkout."""

OWN = {
    "init_and_clone": Case(
        """
            git init -q new
            cd new
            echo x >x
            git add x
            git commit -qm x
            git config core.abbrev 12
            cd ..
            git clone -q new copy
            git clone -q "file://$PWD/new" over
            git clone -q --bare new bare.git
            git clone -q --depth 1 --branch main "file://$PWD/new" shallow
            git -C copy remote set-url origin ../bare.git
            cd copy
            git pull -q
            git commit -q --allow-empty -m y
            git push -q origin HEAD
            git push -qu origin HEAD:t
            git fetch -q --all --prune
            cd ../over
            git pull -q
            git remote -v
            git clone -q --mirror . ../mirror.git
        """,
        says=["origin"],
        leaves=["new", "copy", "over", "bare.git", "shallow", "mirror.git"],
    ),
    "keeping_house": Case(
        """
            for n in 1 2 3; do git commit -q --allow-empty -m $n; done
            git gc -q
            git fsck --no-progress
            git repack -adq
            git prune
            git pack-refs --all
            git count-objects -v | grep packs
            git reflog expire --all
            git maintenance run --quiet
            git update-index --refresh
            git gc --prune=now -q --aggressive
        """,
        says=["packs: 1"],
        denies=["Read-only"],
    ),
    "worktrees_inside": Case(
        """
            git worktree add -q .trees/one -b one
            cd .trees/one
            echo x >x
            git add x
            git commit -qm 'In one'
            cd ../..
            git worktree list | wc -l
            git worktree lock .trees/one
            git worktree unlock .trees/one
            git worktree move .trees/one .trees/two
            git -C .trees/two status -s
            git worktree remove .trees/two
            git worktree prune
            git log -1 --format=%s one
        """,
        says=["2", "In one"],
        leaves=[".trees"],
    ),
    "a_remote_that_the_person_set_up": Case(
        """
            git fetch -q
            git branch -r
            git pull -q --ff-only
            git commit -q --allow-empty -m Mine
            git switch -q --no-track -c mine origin/feature
            cat feature.txt
            git merge -q origin/main
            git rev-parse origin/main
        """,
        says=["origin/feature", "f"],
        outside=ORIGIN,
        leaves=["feature.txt"],
    ),
    "a_branch_of_the_remote": Case(
        """
            git switch -q feature
            git status -sb
            git checkout -q main
            git branch -q -D feature
            git checkout -q feature
            git worktree add -q .trees/f -b another origin/feature
            cat .trees/f/feature.txt feature.txt
        """,
        says=["## feature", "f\nf"],
        outside=ORIGIN,
        leaves=["feature.txt", ".trees"],
    ),
    "submodules": Case(
        """
            git submodule status
            git submodule update -q --init --recursive
            git submodule foreach -q 'git log -1 --format=%s'
            cd lib
            git switch -qc work
            echo x >x
            git add x
            git commit -qm Inside
            cd ..
            git add lib
            git commit -qm Bump
            git submodule summary HEAD~1
            git diff --submodule=log HEAD~1
            git -C lib checkout -q $(git rev-parse HEAD~1:lib)
            git -C lib switch -q work
            git status -s
        """,
        says=["lib (heads/main)", "Begin", "Inside"],
        outside="""
            git clone -q . ../library
            git submodule add -q ../library lib
            git commit -qm Submodule
        """,
        leaves=["lib/x"],
    ),
    "hooks_run_and_are_confined": Case(
        "git commit -q --allow-empty -m Hooked; cat hooked.txt; git log -1 --format=%B",
        says=["pre-commit ran in", "outside: closed", "Hooked", "Added-by: hook"],
        outside="""
cat >.git/hooks/pre-commit <<'E'
#!/bin/bash
echo "pre-commit ran in $PWD" >hooked.txt; (echo x >"$HOME/escaped") 2>/dev/null || echo outside: closed >>hooked.txt
E
cat >.git/hooks/commit-msg <<'E'
#!/bin/sh
git interpret-trailers --in-place --trailer 'Added-by: hook' "$1"
E
chmod +x .git/hooks/pre-commit .git/hooks/commit-msg
""",
        leaves=["hooked.txt"],
    ),
    "filters_and_attributes": Case(
        """
            echo '*.up filter=upper' >.gitattributes
            echo ignored >.gitignore
            echo abc >x.up
            touch ignored
            git add .
            git commit -qm Filtered
            git show HEAD:x.up
            git check-ignore ignored
            git check-attr filter x.up
        """,
        says=["ABC", "ignored", "filter: upper"],
        outside="""
            git config filter.upper.clean 'tr a-z A-Z'
            git config filter.upper.smudge 'tr A-Z a-z'
        """,
        leaves=[".gitattributes", ".gitignore", "x.up", "ignored"],
    ),
}
"""Needs a repository with its git folder inside."""


@cases(WORK | OWN)
def test_in_a_repository(ground: Ground, case: Case) -> None:
    ground.does(case)
    assert "error" not in ground.program.outside("git fsck --no-progress 2>&1; git status", ground.root)


@pytest.mark.bug("SBX-06")
@cases(WORK)
def test_in_a_linked_worktree(ground: Ground, case: Case) -> None:
    ground.repository(name="main-checkout")
    ground.program.outside("git worktree add -q ../linked -b task", ground.root)
    ground.root = ground.folder / "linked"
    ground.open()
    said = ground.works(case.script, leaves=case.leaves)
    assert all(piece in said for piece in case.says), said
    main = ground.folder / "main-checkout"
    assert ground.program.outside("git status --porcelain; git log --format=%s", main) == "Begin\n"
    ground.program.outside("git fsck --no-progress", main)


@cases(WORK)
def test_in_a_submodule(ground: Ground, case: Case) -> None:
    ground.repository(name="library")
    ground.root = ground.folder
    ground.program.outside(
        "git init -q parent; cd parent; git submodule add -q ../library vendor/lib; git commit -qm P; "
        "cd vendor/lib; git switch -qC main",
        ground.folder,
    )
    ground.root = ground.folder / "parent" / "vendor" / "lib"
    ground.open()
    said = ground.works(case.script, leaves=case.leaves)
    assert all(piece in said for piece in case.says), said

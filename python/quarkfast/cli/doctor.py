"""The verb `doctor`: is everything there, does it work, and if not, what to do."""

from quarkfast.cli import console
from quarkfast.cli.exit_codes import ExitCode


def doctor() -> int:
    """Check the installation: versions, instruction sets, and every operator in an ONNX Runtime session."""
    from quarkfast.cli.diagnosis import examine

    with console.status() as say:
        findings = []
        for finding in examine():
            say(f"looked at {finding.what}")
            findings.append(finding)
    console.show_facts((f.what, "WRONG" if f.remedy else "ok", f.value) for f in findings)
    wrong = [finding for finding in findings if finding.remedy]
    for finding in wrong:
        console.show_line(f"{finding.what}: {finding.value}; {finding.remedy}", error=True)
    if wrong:
        return ExitCode.MISSING_DEPENDENCY
    console.show_line("Everything works.")
    return ExitCode.OK

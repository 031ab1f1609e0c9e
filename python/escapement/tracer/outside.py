"""What a program does outside of itself while it is recorded: files, processes, connections. Python tells its audit hooks of them."""

import sys
import threading

EVENTS = frozenset("""
    open os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.truncate os.putenv os.unsetenv os.system os.exec os.posix_spawn os.spawn os.startfile
    shutil.copyfile shutil.copytree shutil.move shutil.rmtree shutil.make_archive shutil.unpack_archive tempfile.mkdtemp tempfile.mkstemp
    subprocess.Popen socket.bind socket.connect socket.sendto socket.sendmsg urllib.Request ftplib.connect http.client.connect smtplib.connect
    sqlite3.connect time.sleep builtins.input
""".split())
CODE = (".py", ".pyc", ".pyi", ".so")   # that Python reads for itself, as it imports or shows a line
SYSTEM = ("/proc/", "/sys/")            # what the system says of itself

seen_in = {}   # thread -> how many


def note(event, arguments):
    if event not in EVENTS:
        return
    name = arguments[0] if event == "open" and arguments else None
    if isinstance(name, str) and (name.endswith(CODE) or name.startswith(SYSTEM)):
        return
    thread = threading.get_ident()
    seen_in[thread] = seen_in.get(thread, 0) + 1


def events_seen():
    """How many such things this thread has done, since somebody first asked."""
    return seen_in.get(threading.get_ident(), 0)


sys.addaudithook(note)   # for good: there is no way to take one back
